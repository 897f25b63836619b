"""`headgate up`: every process of the product under one supervisor. It knows them by their command lines alone."""
