import unittest

from app import posts


class PostsTest(unittest.TestCase):
    def test_slug(self):
        self.assertEqual(posts.slug("The Tea"), "tea")
        # TODO: titles without letters

    def test_status(self):
        self.assertEqual(posts.status({}), "TODO")
