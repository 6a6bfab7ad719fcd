"""The home folders of tests: each test finds an empty one."""

from pathlib import Path


def test_a_folder_that_is_still_empty_is_given_again(home_folders):
    first = home_folders.take()
    second = home_folders.take()
    assert first != second
    home_folders.give_back(first)
    assert home_folders.take() == first
    home_folders.give_back(first)
    home_folders.give_back(second)


def test_a_folder_that_was_used_is_removed(home_folders):
    for change in (
        lambda folder: (folder / ".profile").touch(),
        lambda folder: folder.chmod(0o755),
    ):
        folder = home_folders.take()
        change(Path(folder))
        home_folders.give_back(folder)
        assert not Path(folder).exists()
        following = home_folders.take()
        assert list(Path(following).iterdir()) == []
        home_folders.give_back(following)
