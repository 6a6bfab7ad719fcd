"""``hilum rules compile``: a model proposes checks for sentences, and the user signs them."""
