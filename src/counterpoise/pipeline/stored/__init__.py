"""Where tables go: folders by cluster and day, tables of a Spark catalog; what is there twice is refused or left out."""
