"""`sonorant review`: a page on loopback where a person listens to clips and decides what becomes of them."""
