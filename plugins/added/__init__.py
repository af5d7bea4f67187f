"""What other packages add: how it is found by name, and what each kind of it promises."""
