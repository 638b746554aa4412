package admin

import "cqld/node/control"

// Register registers the handlers of all operations. It is called once, before the server accepts clients.
func (c *Commands) Register(s *control.Server) {
	c.Ring.register(s)
	c.Topology.register(s)
	c.Movement.register(s)
	c.Jobs.register(s)
	c.Repairs.register(s)
	c.Data.register(s)
	c.Indexes.register(s)
	c.Tables.register(s)
	c.Snapshots.register(s)
	c.Roles.register(s)
	c.Accounts.register(s)
	c.Audit.register(s)
	c.Clients.register(s)
	c.Settings.register(s)
	c.Status.register(s)
	c.Activity.register(s)
}

func (v *Ring) register(s *control.Server) {
	control.Handle(s, control.StatusOf, v.Status)
	control.Handle(s, control.TokensOf, v.Tokens)
	control.Handle(s, control.DescribeCluster, v.DescribeCluster)
	control.Handle(s, control.DescribeRing, v.DescribeRing)
	control.Handle(s, control.EndpointsOf, v.Endpoints)
	control.Handle(s, control.SeedsOf, v.Seeds)
}

func (c *Topology) register(s *control.Server) {
	control.Handle(s, control.Operations, c.Operations)
	control.Handle(s, control.Decommission, c.Decommission)
	control.Handle(s, control.RemoveNode, c.RemoveNode)
	control.Handle(s, control.Move, c.Move)
	control.Handle(s, control.Abort, c.Abort)
}

func (m *Movement) register(s *control.Server) {
	control.Handle(s, control.Cleanup, m.Cleanup)
	control.Handle(s, control.Rebuild, m.Rebuild)
}

func (j *Jobs) register(s *control.Server) {
	control.Handle(s, control.ListJobs, j.List)
	control.Handle(s, control.WatchJob, j.Watch)
	control.Handle(s, control.CancelJob, j.Cancel)
	control.Handle(s, control.ResumeJob, j.Resume)
}

func (r *Repairs) register(s *control.Server) {
	control.Handle(s, control.Repair, r.Repair)
}

func (d *Data) register(s *control.Server) {
	control.Handle(s, control.Flush, d.Flush)
	control.Handle(s, control.Compact, d.Compact)
}

func (x *Indexes) register(s *control.Server) {
	control.Handle(s, control.RebuildIndex, x.Rebuild)
	control.Handle(s, control.ViewBuildOf, x.ViewBuild)
	control.Handle(s, control.BuildThroughputOf, x.Throughput)
	control.Handle(s, control.SetBuildThroughput, x.SetThroughput)
}

func (s *Tables) register(to *control.Server) {
	control.Handle(to, control.StatsOfTables, s.Stats)
	control.Handle(to, control.HistogramsOf, s.Histograms)
	control.Handle(to, control.TopPartitions, s.TopPartitions)
}

func (v *Snapshots) register(s *control.Server) {
	control.Handle(s, control.TakeSnapshot, v.Take)
	control.Handle(s, control.ListSnapshots, v.List)
	control.Handle(s, control.ClearSnapshot, v.Clear)
}

func (r *Roles) register(s *control.Server) {
	control.HandleLocal(s, control.ResetSuperuser, r.ResetSuperuser)
	control.Handle(s, control.UpdateCIDRGroup, r.UpdateCIDRGroup)
	control.Handle(s, control.DropCIDRGroup, r.DropCIDRGroup)
	control.Handle(s, control.ListCIDRGroups, r.ListCIDRGroups)
	control.Handle(s, control.CIDRGroupsOfIP, r.CIDRGroupsOfIP)
}

func (t *Accounts) register(s *control.Server) {
	control.Handle(s, control.TablesAccountsOf, t.List)
	control.Handle(s, control.CreateTablesAccount, t.Create)
	control.Handle(s, control.RotateTablesKey, t.RotateKey)
	control.Handle(s, control.SetTablesConsistency, t.SetConsistency)
	control.Handle(s, control.RemoveTablesAccount, t.Remove)
}

func (l *Audit) register(s *control.Server) {
	control.Handle(s, control.AuditLogOf, l.Get)
	control.Handle(s, control.SetAuditLog, l.Set)
}

func (c *Clients) register(s *control.Server) {
	control.Handle(s, control.ClientStats, c.Connections)
	control.Handle(s, control.KillQuery, c.KillQuery)
	control.Handle(s, control.Drain, c.Drain)
	control.Handle(s, control.BinaryOf, c.BinaryOf)
	control.Handle(s, control.ReadyOf, c.Ready)
	control.Handle(s, control.SetBinary, c.SetBinary)
}

func (s *Settings) register(to *control.Server) {
	control.Handle(to, control.StopDaemon, s.Stop)
	control.Handle(to, control.HandoffOf, s.HandoffOf)
	control.Handle(to, control.SetHandoff, s.SetHandoff)
	control.Handle(to, control.TimeoutsOf, s.Timeouts)
	control.Handle(to, control.LoggingLevelOf, s.LoggingLevel)
	control.Handle(to, control.SetLoggingLevel, s.SetLoggingLevel)
	control.Handle(to, control.ReloadSSL, s.ReloadSSL)
}

func (st *Status) register(s *control.Server) {
	control.Handle(s, control.InfoOf, st.Info)
}

func (a *Activity) register(s *control.Server) {
	control.Handle(s, control.StatsOfPools, a.Pools)
	control.Handle(s, control.CompactionStats, a.Compactions)
	control.Handle(s, control.NetStats, a.Net)
	control.Handle(s, control.PendingHintsOf, a.PendingHints)
}
