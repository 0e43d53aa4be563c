"""What is remembered of people, teams and systems, and the one way in."""
