"""The console's pages: what they show, and how it is drawn."""
