package system

import "time"

// viewRows adds the rows of system_views. Tables without a case are filled by figureRows.
func (s *Source) viewRows(b *builder) {
	switch b.table.Name {
	case "clients":
		s.clientRows(b)
	case "settings":
		s.settingRows(b)
	case "jobs":
		s.jobRows(b)
	case "ranges":
		s.rangeRows(b)
	case "schema_comments":
		s.commentRows(b, "comment", commentsOf())
	case "schema_security_labels":
		s.commentRows(b, "security_label", labelsOf())
	case "sai_column_indexes":
		s.columnIndexRows(b)
	default:
		s.figureRows(b)
	}
}

// clientRows adds a row for each connection of this node. Unknown values are shown as Cassandra shows them.
func (s *Source) clientRows(b *builder) {
	if s.o.Clients == nil {
		return
	}
	for _, c := range s.o.Clients() {
		// Host names are not looked up.
		if c.Hostname == "" {
			c.Hostname = c.Address.Addr().String()
		}
		if c.User == "" {
			c.User = "anonymous"
		}
		if c.Stage == "" {
			c.Stage = "ready"
		}
		b.add(values{
			"address":          inet(c.Address.Addr()),
			"port":             integer(int32(c.Address.Port())),
			"client_options":   textMap(c.Options),
			"connection_stage": text(c.Stage),
			"driver_name":      textOrNull(c.Options["DRIVER_NAME"]),
			"driver_version":   textOrNull(c.Options["DRIVER_VERSION"]),
			"hostname":         text(c.Hostname),
			"keyspace_name":    textOrNull(c.Keyspace),
			"protocol_version": integer(int32(c.ProtocolVersion)),
			"request_count":    bigint(c.Requests),
			"ssl_cipher_suite": textOrNull(c.TLSCipher),
			"ssl_enabled":      boolean(c.TLS),
			"ssl_protocol":     textOrNull(c.TLSProtocol),
			"username":         text(c.User),
		})
	}
}

// settingRows adds a row for each setting.
func (s *Source) settingRows(b *builder) {
	if s.o.Settings == nil {
		return
	}
	for name, value := range s.o.Settings() {
		b.add(values{"name": text(name), "value": text(value)})
	}
}

// jobRows adds a row for each job; the table is an extension of cqld.
func (s *Source) jobRows(b *builder) {
	if s.o.Jobs == nil {
		return
	}
	for _, j := range s.o.Jobs() {
		row := values{
			"id":         text(j.ID),
			"attempt":    integer(int32(j.Attempt)),
			"created_at": timestampOrNull(j.Created),
			"ended_at":   timestampOrNull(j.Ended),
			"error":      textOrNull(j.Error),
			"kind":       text(j.Kind),
			"phase":      textOrNull(j.Phase),
			"progress":   bigint(j.Done),
			"resumable":  boolean(j.Resumable),
			"started_at": timestampOrNull(j.Began),
			"state":      text(j.State),
			"target":     text(j.Target),
			"unit":       text(j.Unit),
		}
		// A ratio needs a known total.
		if j.Total > 0 {
			row["total"] = bigint(j.Total)
			row["completion_ratio"] = double(float64(j.Done) / float64(j.Total))
		}
		// Rounded to whole seconds.
		if j.Left > 0 {
			row["remaining_seconds"] = bigint(int64(j.Left.Round(time.Second) / time.Second))
		}
		b.add(row)
	}
}
