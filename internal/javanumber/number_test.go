package javanumber

import (
	"math"
	"testing"
)

func TestNumbersAreParsedAsInJava(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "+1": 1, "-1": -1, "１": 1, "٣٤": 34, "१०": 10,
		"2147483647": 2147483647} {
		if n, err := ParseInt(text, 32); err != nil || n != want {
			t.Errorf("ParseInt(%q) = %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", " 1", "1 ", "1_0", "0x1", "1.0", "2147483648", "𝟏", "²", "Ⅷ", "--1"} {
		if n, err := ParseInt(text, 32); err == nil {
			t.Errorf("ParseInt(%q) = %d", text, n)
		}
	}
	for text, want := range map[string]float64{"1": 1, " 1\t": 1, "1d": 1, "1.5F": 1.5, ".5": .5, "5.": 5, "1e3": 1000,
		"-1E-1":    -0.1,
		"Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "1e400": math.Inf(1), "1e-400": 0,
		"0x1p3": 8, "0x1.8p1": 3, "0X1P-2f": 0.25, "0x.8p0": 0.5, "0x1.fffffffffffff8p1023": math.Inf(1),
		"0x1p-1075": 0, "1e99999999999": math.Inf(1), "+.5": .5, " 1\n": 1, "1.5e3D": 1500} {
		if f, err := ParseDouble(text); err != nil || f != want {
			t.Errorf("ParseDouble(%q) = %v, %v", text, f, err)
		}
	}
	for _, text := range []string{"NaN", "+NaN", "-NaN", "NaN "} {
		if f, err := ParseDouble(text); err != nil || !math.IsNaN(f) {
			t.Errorf("%s is %v, %v", text, f, err)
		}
	}
	for _, text := range []string{"", " ", "nan", "inf", "Inf", "infinity", "NAN", "１", "1_0", "d", "1dd", "1 1",
		"\u00a01", "--NaN", "+-NaN", "-+NaN", "--Infinity",
		"NaNf", "Infinityd", "0x1", "0x1d", "0x", "0x1p", "0x_1p3", "1p3",
		".", "e5", "1e", "1e+", "+"} {
		if f, err := ParseDouble(text); err == nil {
			t.Errorf("ParseDouble(%q) = %v", text, f)
		}
	}
	for text, want := range map[string]bool{"1": true, "１": true, "+1": false, "-1": false, "": false, " 1": false,
		"2147483648": false} {
		if _, ok := ParseUnsigned(text); ok != want {
			t.Errorf("ParseUnsigned(%q): %v", text, ok)
		}
	}
}
