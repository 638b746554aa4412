// Package analysis converts texts to the terms under which indexes find them: it folds cases, normalizes, divides texts
// into words and reduces words to their stems.
//
//	text ──▶ tokenizer ──▶ filter ──▶ … ──▶ terms
//
// An index without analysis has the text itself as its term. Functions are pure: equal options and texts have equal
// terms on every node and in every release, because terms are stored. A change of the libraries that divide or reduce
// words must be treated as a change of the stored format.
package analysis
