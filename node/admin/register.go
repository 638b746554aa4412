package admin

import "cqld/node/control"

// Register registers the handlers of all operations. It is called once, before the server accepts clients. An operation
// without a handler is an error at its first call, so a new one must be added here:
//
//	control.Operation (name, types) ─ Handle ─▶ method of a part of Commands ─▶ the part's packages
func (c *Commands) Register(s *control.Server) {
	c.Ring.register(s)
	c.Ranges.register(s)
	c.Topology.register(s)
	c.Movement.register(s)
	c.Upgrade.register(s)
	c.Jobs.register(s)
	c.Repairs.register(s)
	c.Data.register(s)
	c.Indexes.register(s)
	c.Tables.register(s)
	c.Snapshots.register(s)
	c.Imports.register(s)
	c.Encryption.register(s)
	c.Backups.register(s)
	c.Roles.register(s)
	c.Accounts.register(s)
	c.Audit.register(s)
	c.Clients.register(s)
	c.Settings.register(s)
	c.Status.register(s)
	c.Activity.register(s)
}

// register adds what shows the ring. None of these operations changes anything.
func (v *Ring) register(s *control.Server) {
	control.Handle(s, control.StatusOf, v.Status)
	control.Handle(s, control.TokensOf, v.Tokens)
	control.Handle(s, control.DescribeCluster, v.DescribeCluster)
	control.Handle(s, control.DescribeRing, v.DescribeRing)
	control.Handle(s, control.EndpointsOf, v.Endpoints)
	control.Handle(s, control.SeedsOf, v.Seeds)
}

// register adds the changes of the ring. All but Operations write to the metadata log.
func (c *Topology) register(s *control.Server) {
	control.Handle(s, control.Operations, c.Operations)
	control.Handle(s, control.Decommission, c.Decommission)
	control.Handle(s, control.RemoveNode, c.RemoveNode)
	control.Handle(s, control.Move, c.Move)
	control.Handle(s, control.SplitRange, c.SplitRange)
	control.Handle(s, control.MergeRange, c.MergeRange)
	control.Handle(s, control.MoveRange, c.MoveRange)
	control.Handle(s, control.Abort, c.Abort)
}

// register adds what moves or drops data of this node; both are jobs.
func (m *Movement) register(s *control.Server) {
	control.Handle(s, control.Cleanup, m.Cleanup)
	control.Handle(s, control.Rebuild, m.Rebuild)
}

// register adds the operations on jobs, whatever started them.
func (j *Jobs) register(s *control.Server) {
	control.Handle(s, control.ListJobs, j.List)
	control.Handle(s, control.WatchJob, j.Watch)
	control.Handle(s, control.CancelJob, j.Cancel)
	control.Handle(s, control.ResumeJob, j.Resume)
}

// register adds the repair, which is a job.
func (r *Repairs) register(s *control.Server) {
	control.Handle(s, control.Repair, r.Repair)
}

// register adds the operations on memtables and files of this node.
func (d *Data) register(s *control.Server) {
	control.Handle(s, control.Flush, d.Flush)
	control.Handle(s, control.Compact, d.Compact)
	control.Handle(s, control.VerifyFiles, d.Verify)
}

// register adds the rotation of keys of the encryption at rest, which is a job.
func (e *Encryption) register(s *control.Server) { control.Handle(s, control.RotateKeys, e.Rotate) }

// register adds the operations on builds of indexes and views.
func (x *Indexes) register(s *control.Server) {
	control.Handle(s, control.RebuildIndex, x.Rebuild)
	control.Handle(s, control.ViewBuildOf, x.ViewBuild)
	control.Handle(s, control.BuildThroughputOf, x.Throughput)
	control.Handle(s, control.SetBuildThroughput, x.SetThroughput)
}

// register adds the statistics of tables.
func (s *Tables) register(to *control.Server) {
	control.Handle(to, control.StatsOfTables, s.Stats)
	control.Handle(to, control.HistogramsOf, s.Histograms)
	control.Handle(to, control.TopPartitions, s.TopPartitions)
}

// register adds the operations on snapshots, which are directories of this node.
func (v *Snapshots) register(s *control.Server) {
	control.Handle(s, control.TakeSnapshot, v.Take)
	control.Handle(s, control.ListSnapshots, v.List)
	control.Handle(s, control.ClearSnapshot, v.Clear)
	control.Handle(s, control.VerifySnapshot, v.Verify)
	control.Handle(s, control.ShowSnapshot, v.Show)
}

// register adds the import of rows of a snapshot, which is a job.
func (i *Imports) register(s *control.Server) {
	control.Handle(s, control.Import, i.Import)
}

// register adds the operations on backups of the cluster. Making and restoring one are jobs.
func (b *Backups) register(s *control.Server) {
	control.Handle(s, control.CreateBackup, b.Create)
	control.Handle(s, control.ListBackups, b.List)
	control.Handle(s, control.VerifyBackup, b.Verify)
	control.Handle(s, control.DeleteBackup, b.Delete)
	control.Handle(s, control.CreateBackupSchedule, b.CreateSchedule)
	control.Handle(s, control.ListBackupSchedules, b.Schedules)
	control.Handle(s, control.DropBackupSchedule, b.DropSchedule)
	control.Handle(s, control.RestoreBackup, b.Restore)
}

// register adds the operations on roles and CIDR groups. HandleLocal accepts the socket of the data directory only: who
// may open it could change the files of the node as well.
func (r *Roles) register(s *control.Server) {
	control.HandleLocal(s, control.ResetSuperuser, r.ResetSuperuser)
	control.Handle(s, control.UpdateCIDRGroup, r.UpdateCIDRGroup)
	control.Handle(s, control.DropCIDRGroup, r.DropCIDRGroup)
	control.Handle(s, control.ListCIDRGroups, r.ListCIDRGroups)
	control.Handle(s, control.CIDRGroupsOfIP, r.CIDRGroupsOfIP)
}

// register adds the operations on accounts of Azure Tables. Create and RotateKey return keys, once.
func (t *Accounts) register(s *control.Server) {
	control.Handle(s, control.TablesAccountsOf, t.List)
	control.Handle(s, control.CreateTablesAccount, t.Create)
	control.Handle(s, control.RotateTablesKey, t.RotateKey)
	control.Handle(s, control.SetTablesConsistency, t.SetConsistency)
	control.Handle(s, control.RemoveTablesAccount, t.Remove)
}

// register adds the operations on the audit log of this node.
func (l *Audit) register(s *control.Server) {
	control.Handle(s, control.AuditLogOf, l.Get)
	control.Handle(s, control.SetAuditLog, l.Set)
}

// register adds the operations on connections of clients of this node.
func (c *Clients) register(s *control.Server) {
	control.Handle(s, control.ClientStats, c.Connections)
	control.Handle(s, control.KillQuery, c.KillQuery)
	control.Handle(s, control.Drain, c.Drain)
	control.Handle(s, control.BinaryOf, c.BinaryOf)
	control.Handle(s, control.ReadyOf, c.Ready)
	control.Handle(s, control.SetBinary, c.SetBinary)
}

// register adds the operations on settings of this process, which end with it.
func (s *Settings) register(to *control.Server) {
	control.Handle(to, control.StopDaemon, s.Stop)
	control.Handle(to, control.HandoffOf, s.HandoffOf)
	control.Handle(to, control.SetHandoff, s.SetHandoff)
	control.Handle(to, control.TimeoutsOf, s.Timeouts)
	control.Handle(to, control.LoggingLevelOf, s.LoggingLevel)
	control.Handle(to, control.SetLoggingLevel, s.SetLoggingLevel)
	control.Handle(to, control.ReloadSSL, s.ReloadSSL)
}

// register adds the state of the node.
func (st *Status) register(s *control.Server) {
	control.Handle(s, control.InfoOf, st.Info)
}

func (a *Activity) register(s *control.Server) {
	control.Handle(s, control.StatsOfPools, a.Pools)
	control.Handle(s, control.CompactionStats, a.Compactions)
	control.Handle(s, control.NetStats, a.Net)
	control.Handle(s, control.PendingHintsOf, a.PendingHints)
}
