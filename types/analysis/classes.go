package analysis

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Of returns the analyzer of an index of the class sai or sasi with these options, or nil if values themselves are the
// terms. Other classes, such as legacy_local_table, have no analysis.
func Of(class string, options map[string]string) *Analyzer {
	switch class {
	case "sai":
		return ForSAI(options)
	case "sasi":
		return ForSASI(options)
	}
	return nil
}

// ForSAI returns the analyzer of a storage-attached index with these options, or nil if values themselves are the
// terms. One of the three options is enough for an analyzer, even with its default value: values are then UTF-8 text.
func ForSAI(options map[string]string) *Analyzer {
	has := func(name string) bool {
		_, ok := options[name]
		return ok
	}
	if !has("case_sensitive") && !has("normalize") && !has("ascii") {
		return nil
	}
	sensitive := !has("case_sensitive") || truth(options, "case_sensitive")
	normalized, ascii := truth(options, "normalize"), truth(options, "ascii")
	a := &Analyzer{name: fmt.Sprintf("NonTokenizingAnalyzer{caseSensitive=%t, normalized=%t, ascii=%t}", sensitive,
		normalized, ascii)}
	// The filters are in the order of Cassandra's NonTokenizingAnalyzer.
	if !sensitive {
		a.filters = append(a.filters, lower)
	}
	if normalized {
		a.filters = append(a.filters, compose)
	}
	if ascii {
		a.filters = append(a.filters, newFold())
	}
	return a
}

// ForSASI returns the analyzer of an SSTable-attached secondary index with these options, or nil if values themselves
// are the terms. The class is one that package schema accepts. The filters follow the classes in
// org.apache.cassandra.index.sasi.analyzer.
func ForSASI(options map[string]string) *Analyzer {
	class := options["analyzer_class"]
	// The class may be qualified by its package.
	class = class[strings.LastIndexByte(class, '.')+1:]
	if analyzed, ok := options["analyzed"]; class == "" && ok && strings.EqualFold(analyzed, "true") {
		class = "StandardAnalyzer"
	}
	switch class {
	case "NonTokenizingAnalyzer":
		return &Analyzer{name: class, filters: append(caseFilters(options, ""), compose)}
	case "DelimiterAnalyzer":
		delimiter, ok := options["delimiter"]
		if !ok || delimiter == "" {
			delimiter = ","
		}
		// Cassandra takes the first character.
		_, size := utf8.DecodeRuneInString(delimiter)
		return &Analyzer{name: class, tokenize: separated(delimiter[:size])}
	case "StandardAnalyzer":
		a := &Analyzer{name: class, tokenize: words, filters: caseFilters(options, "tokenization_")}
		if stem := stemmer(options["tokenization_locale"]); stem != nil &&
			truth(options, "tokenization_enable_stemming") {
			a.filters = append(a.filters, stem)
		}
		a.filters = append(a.filters, compose)
		return a
	}
	return nil
}

// caseFilters returns the filters for the options of upper and lower case. The options of StandardAnalyzer have a
// prefix. normalize_lowercase wins over normalize_uppercase. case_sensitive is an option of NonTokenizingAnalyzer only,
// whose prefix is empty.
func caseFilters(options map[string]string, prefix string) []filter {
	sensitive, ok := options["case_sensitive"]
	switch {
	case truth(options, prefix+"normalize_lowercase"):
		return []filter{lower}
	case truth(options, prefix+"normalize_uppercase"):
		return []filter{upper}
	case prefix == "" && ok && !strings.EqualFold(sensitive, "true"):
		return []filter{lower}
	}
	return nil
}
