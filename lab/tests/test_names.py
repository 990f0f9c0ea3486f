"""Names given by the user: what is accepted, and what the message says about the others."""

import pytest

from rtlab.mistakes import Mistake, choose, unknown_name


def test_a_misspelt_name_is_answered_with_the_nearest_one():
    message = str(unknown_name("allocator", "mimaloc-1.7", ["glibc", "mimalloc-1.7", "snmalloc"]))
    assert "Did you mean 'mimalloc-1.7'?" in message
    assert "Known: glibc, mimalloc-1.7, snmalloc." in message


def test_a_name_like_no_other_gets_no_guess():
    assert "Did you mean" not in str(unknown_name("load", "qqqq", ["cfrac", "barnes"]))


def test_names_keep_their_order_and_count_once():
    assert choose("load", "b, a,b", ["a", "b", "c"], []) == ["b", "a"]


def test_no_option_means_the_default():
    assert choose("load", None, ["a", "b"], ["b"]) == ["b"]


def test_an_option_without_names_is_refused():
    with pytest.raises(Mistake, match="No load in ' , '"):
        choose("load", " , ", ["a"], ["a"])
