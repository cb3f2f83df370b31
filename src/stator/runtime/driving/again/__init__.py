"""What a program finds on record when it runs again: its turns, the attempts at them, writes in doubt."""
