"""The texts of a comparison as SQL of either side."""
