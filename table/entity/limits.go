package entity

// Limits bound what one request may cost. Zero fields get the service's values.
type Limits struct {
	PageEntities int // of one answer: 1000
	PageBytes    int // of one answer: 4 MiB
	Properties   int // of one entity, without keys and Timestamp: 252
	EntityBytes  int // 1 MiB
	Columns      int // of one table: property names and types that may become columns: 2000
}
