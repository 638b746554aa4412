package control

import "time"

// The operations on backups of the cluster. All nodes must be able to use the location.
var (
	CreateBackup  = Operation[BackupArgs, Backup]{Name: "createbackup", Changes: true}
	ListBackups   = Operation[BackupArgs, Backups]{Name: "listbackups"}
	VerifyBackup  = Operation[BackupArgs, Verified]{Name: "verifybackup"}
	DeleteBackup  = Operation[DeleteBackupArgs, SweptBackups]{Name: "deletebackup", Changes: true}
	RestoreBackup = Operation[RestoreArgs, Restored]{Name: "restorebackup", Changes: true}
)

// BackupArgs name a backup.
type BackupArgs struct {
	Location string `json:"location"` // a URL without credentials
	// Name may be empty: CreateBackup then uses the current time, ListBackups lists all.
	Name string `json:"name,omitempty"`
	// Tables are keyspaces and tables (KEYSPACE.TABLE), for CreateBackup; empty means everything.
	Tables []string `json:"tables,omitempty"`
}

// Backup describes a backup. Of one that cannot be restored, only the name and the problem are known, and perhaps when
// it was deleted.
type Backup struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended"`
	// HybridTime is in microseconds: the backup contains each write that was acknowledged before.
	HybridTime int64    `json:"hybrid_time"`
	Cluster    string   `json:"cluster"`
	Build      string   `json:"cqld"`
	Tables     []string `json:"tables,omitempty"` // empty means everything
	Nodes      int      `json:"nodes"`
	Files      int      `json:"files"`
	Size       int64    `json:"size"`   // bytes
	Stored     int64    `json:"stored"` // bytes that no earlier backup had stored
	Lacks      []string `json:"lacks,omitempty"`
	// Schedule is the name of the schedule that made the backup; empty for backups of operators.
	Schedule string `json:"schedule,omitempty"`
	// MomentsUntil is the hybrid time, in microseconds, until which each moment after Ended can be restored with this
	// backup; 0 means that none can, or that this was not determined: ListBackups determines it for one backup, and of
	// a list for the newest backup of each cluster.
	MomentsUntil int64 `json:"moments_until,omitempty"`
	// NoMoments is why no moment can be restored although the cluster archives its log.
	NoMoments string `json:"no_moments,omitempty"`
	// Deleted is when the backup was deleted, and Problem why it cannot be restored.
	Deleted *time.Time `json:"deleted,omitempty"`
	Problem string     `json:"problem,omitempty"`
}

// Backups are the backups at a location, the oldest first.
type Backups struct {
	Backups []Backup `json:"backups"`
}

// DeleteBackupArgs name a backup to be deleted. Grace is how long deleted backups are kept; nil means the default.
type DeleteBackupArgs struct {
	Location string         `json:"location"`
	Name     string         `json:"name"`
	Grace    *time.Duration `json:"grace_ns,omitempty"`
}

// SweptBackups is what was removed from a location. Objects are files that backups share.
type SweptBackups struct {
	Removed []string `json:"removed"` // backups
	Objects int      `json:"objects"`
	// Segments are of archived logs, and older than all backups. Bytes are of objects and segments.
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"`
	Kept     int   `json:"kept"` // objects that no backup needs, and that are removed later
}

// RestoreArgs select what is restored. A table that exists is never changed: a restoration that would need to is
// refused, unless Replace is true.
type RestoreArgs struct {
	Location string `json:"location"`
	Name     string `json:"name,omitempty"` // empty means the newest backup
	// At is a hybrid time in microseconds: tables are restored as they were then, from an earlier backup and the
	// archived logs. 0 means the time of the backup.
	At     int64    `json:"at,omitempty"`
	Tables []string `json:"tables,omitempty"` // keyspaces and tables; empty means everything
	As     string   `json:"as,omitempty"`     // the new name of the only table
	// FitReplication adapts the replication of the keyspaces that are created to the ring: its data centers, and no
	// more replicas than nodes.
	FitReplication bool `json:"fit_replication,omitempty"`
	// Replace means that tables which exist are replaced by the restored ones, in one step, and dropped.
	Replace bool `json:"replace,omitempty"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// Restored is what a restoration does, or would do in a dry run. It is known before the rows are read.
type Restored struct {
	Name    string          `json:"name"` // of the backup
	Created time.Time       `json:"created"`
	At      int64           `json:"at,omitempty"` // see RestoreArgs
	Tables  []RestoredTable `json:"tables"`
	Changes int             `json:"schema_changes"`
	Roles   int             `json:"role_changes"`
	Bytes   int64           `json:"bytes"` // of the files that are read
	// NodeBytes is how many bytes each node reads, Rate at most how many per second, and Estimate how long it takes.
	NodeBytes int64         `json:"node_bytes"`
	Rate      int64         `json:"rate"`
	Estimate  time.Duration `json:"estimate_ns"`
	Lacks     []string      `json:"lacks,omitempty"`
}

// RestoredTable is a table of a backup, and the table that gets its rows.
type RestoredTable struct {
	From     string `json:"from"`
	Into     string `json:"into"`
	Replaces bool   `json:"replaces,omitempty"` // a table that exists
}

// The operations on schedules of backups, which are metadata of the cluster.
var (
	CreateBackupSchedule = Operation[BackupSchedule, None]{Name: "createbackupschedule", Changes: true}
	ListBackupSchedules  = Operation[None, BackupSchedules]{Name: "listbackupschedules"}
	DropBackupSchedule   = Operation[DropBackupScheduleArgs, None]{Name: "dropbackupschedule", Changes: true}
)

// BackupSchedule says when backups are made and which are kept. Every is at least a minute. The newest Keep backups and
// those that are younger than KeepFor are kept; without both, all are. Last, Overdue and Problem are results only.
type BackupSchedule struct {
	Name     string        `json:"name"`
	Location string        `json:"location"`         // a URL without credentials
	Tables   []string      `json:"tables,omitempty"` // keyspaces and tables; empty means everything
	Every    time.Duration `json:"every_ns"`
	At       time.Duration `json:"at_ns,omitempty"` // after midnight UTC
	Keep     int           `json:"keep,omitempty"`
	KeepFor  time.Duration `json:"keep_for_ns,omitempty"`
	Created  time.Time     `json:"created"`
	// Last is the time of the last good backup; nil means that there is none. Overdue means that it is older than two
	// intervals, and Problem is why the location cannot be read.
	Last    *time.Time `json:"last,omitempty"`
	Overdue bool       `json:"overdue,omitempty"`
	Problem string     `json:"problem,omitempty"`
}

// BackupSchedules are the schedules of the cluster, in the order in which they were created.
type BackupSchedules struct {
	Schedules []BackupSchedule `json:"schedules"`
}

// DropBackupScheduleArgs name a schedule. Its backups stay, and are deleted by operators only, or by a later schedule
// with the same name.
type DropBackupScheduleArgs struct {
	Name string `json:"name"`
}
