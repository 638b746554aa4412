package cql

// appendIf appends text if the condition holds.
func appendIf(dst []byte, condition bool, text string) []byte {
	if condition {
		dst = append(dst, text...)
	}
	return dst
}

// appendList appends the elements with a separator between them. each gets a pointer, so that large elements are not
// copied.
func appendList[E any](dst []byte, all []E, separator string, each func([]byte, *E) []byte) []byte {
	for i := range all {
		dst = appendIf(dst, i > 0, separator)
		dst = each(dst, &all[i])
	}
	return dst
}
