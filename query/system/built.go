package system

import "cqld/schema"

// eachView calls f for every materialized view.
func (s *Source) eachView(f func(keyspace, view string)) {
	s.keyspaces(false, func(k *schema.Keyspace) {
		for _, name := range k.ViewNames() {
			f(k.Name, name)
		}
	})
}

// builtRows adds the rows of system.built_views. A view can be read completely as soon as it exists.
func (s *Source) builtRows(b *builder) {
	s.eachView(func(keyspace, view string) {
		b.add(values{"keyspace_name": text(keyspace), "view_name": text(view), "status_replicated": boolean(true)})
	})
}

// buildStatusRows adds the rows of system_distributed.view_build_status: one for each view and each node.
func (s *Source) buildStatusRows(b *builder) {
	s.eachView(func(keyspace, view string) {
		for _, n := range s.o.View.Topology().Nodes() {
			if len(n.Tokens) > 0 {
				b.add(values{"keyspace_name": text(keyspace), "view_name": text(view), "host_id": uuid(n.Host), "status": text("SUCCESS")})
			}
		}
	})
}
