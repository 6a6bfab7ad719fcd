import unittest

from catalog.articles import ARTICLES, find


class ArticlesTest(unittest.TestCase):
    def test_numbers(self):
        numbers = [article["id"] for article in ARTICLES]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_find(self):
        self.assertEqual(find(3001)["id"], 3001)
        with self.assertRaises(LookupError):
            find(1)


if __name__ == "__main__":
    unittest.main()
