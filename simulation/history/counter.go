package history

import "fmt"

// Addition is one change of a counter.
type Addition struct {
	Key, Delta int64
	// Returned is 0 while the outcome is unknown.
	Call, Returned int64
	// Dropped means that the addition certainly does not count.
	Dropped bool
}

// CheckCounter checks a value of a counter that was read between two times: it lies between the additions acknowledged
// before the read began and those sent before it ended. It returns a violation, or an empty text.
func CheckCounter(additions []*Addition, key, value, call, returned int64) string {
	least, most := int64(0), int64(0)
	for _, a := range additions {
		if a.Key != key || a.Dropped || a.Call > returned {
			continue
		}
		// Acknowledged before the read began: it certainly counts.
		if a.Returned != 0 && a.Returned < call {
			least += a.Delta
			most += a.Delta
			continue
		}
		// It may count or not, so it extends the interval on one side.
		least += min(a.Delta, 0)
		most += max(a.Delta, 0)
	}
	if value < least || value > most {
		return fmt.Sprintf("counter %d is %d, but lies between %d and %d", key, value, least, most)
	}
	return ""
}
