package number

import (
	"math/big"
	"strings"
	"testing"
)

// TestDigitsAreConverted compares with big.Int.
func TestDigitsAreConverted(t *testing.T) {
	for _, n := range []int{1, 1999, 2000, 2001, 4001, 16384} {
		digits := strings.Repeat("9070", n/4+1)[:n]
		want, _ := new(big.Int).SetString(digits, 10)
		if got := fromDigits(digits); got.Cmp(want) != 0 {
			t.Errorf("%d digits are converted wrongly", n)
		}
	}
}
