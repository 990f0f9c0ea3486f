"""When a profile is stable: no peak has grown by more than the headroom in the last K runs."""

from __future__ import annotations

from dataclasses import dataclass

from rtmalloc_tools.profile.combine import Change, grows_beyond
from rtmalloc_tools.profile.profile_format import Profile


@dataclass(frozen=True)
class Progress:
    """`reference` is the profile from before the first of the `streak` runs that stayed within the headroom."""

    reference: Profile | None
    streak: int = 0
    grown: tuple[Change, ...] = ()  # peaks that went beyond it in the last run


def after_run(progress: Progress, profile: Profile, headroom: float) -> Progress:
    """Compared with the reference, not with the run before, so that a slow creep does not pass for stable."""
    if progress.reference is None:
        return Progress(profile)
    grown = tuple(grows_beyond(progress.reference, profile, headroom))
    return Progress(profile, 0, grown) if grown else Progress(progress.reference, progress.streak + 1)
