// Package typo finds the name that a user probably meant. It compares bytes, which suits names of options and columns:
// nearly all of them are ASCII.
package typo

// Distance returns the Levenshtein distance of two words: how many bytes must be inserted, removed or replaced. It
// needs len(a)·len(b) steps and the memory of one row, so callers should bound the words.
func Distance(a, b string) int {
	// The row of the classic table for the prefix of a read so far.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		// diagonal is the value of the row before, one column to the left.
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// Nearest returns the name that is closest to word, or "" if every name is farther than most. If several names are
// equally close, it returns the alphabetically first one. most is inclusive: 0 finds only the word itself.
func Nearest(word string, names func(yield func(string) bool), most int) (nearest string) {
	for name := range names {
		// A nearer name replaces the limit, so later names must be as near.
		if d := Distance(word, name); d < most || d == most && (nearest == "" || name < nearest) {
			nearest, most = name, d
		}
	}
	return nearest
}
