package analysis

// Bounds of the terms of one text, so that a text of any length makes a bounded number of entries.
const (
	// termsMax is how many terms a text has. Further words of longer texts are not found by the index.
	termsMax = 10000
	// wordMax is the length of the longest word that has a term, in characters. It is Cassandra's limit.
	wordMax = 255
)
