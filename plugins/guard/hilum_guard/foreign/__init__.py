"""Read the permissions that the user gave to other agents; what they deny, hilum denies, too."""
