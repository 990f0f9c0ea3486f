"""When a profile is stable: no peak has grown by more than the headroom in the last K runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rtmalloc_tools.profile.combine import Change, grows_beyond
from rtmalloc_tools.profile.level import by_routine, levelled
from rtmalloc_tools.profile.memory import at_once, shared
from rtmalloc_tools.profile.profile_format import Profile
from rtmalloc_tools.profile.size_classes import EXTENT_PAGES_PART


@dataclass(frozen=True)
class Progress:
    """`reference` is the profile from before the first of the `streak` runs that stayed within the headroom."""

    reference: Profile | None
    streak: int = 0
    grown: tuple[Change, ...] = ()  # peaks that went beyond it in the last run


def after_run(progress: Progress, profile: Profile, headroom: float) -> Progress:
    """Compared with the reference, not with the run before, so that a slow creep does not pass for stable. And with
    what loading that would make ready: of threads that are alike, it does not matter which one needs the most."""
    if progress.reference is None:
        return Progress(profile)
    ready = replace(progress.reference, records=tuple(levelled(progress.reference)))
    grown = (*grows_beyond(ready, profile, headroom), *shared_grows_beyond(progress.reference, profile, headroom))
    return Progress(profile, 0, grown) if grown else Progress(progress.reference, progress.streak + 1)


def shared_grows_beyond(known: Profile, grown: Profile, headroom: float) -> list[Change]:
    """Where threads that race share a reserve, all together, or all of a routine, must not need more either: a twelfth
    is made ready."""
    if not shared(known, "seg").chunks:
        return []
    old, new = together(known), together(grown)
    most = 1 + max(headroom, 1 / EXTENT_PAGES_PART)
    return [
        Change(of, "granules in pages and spans together", old[of], count)
        for of, count in new.items()
        if count > old.get(of, count) * most
    ]


def together(profile: Profile) -> dict[str, int]:
    """Granules of all threads, and of those of each routine, by name."""
    routines = by_routine(record for record in profile.records if not record.process)
    return {"whole process": at_once(profile)} | {
        of[0].routine: max(record.together for record in of) for of in routines.values()
    }
