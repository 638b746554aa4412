package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/schema"
	"cqld/storage/database"
)

// Verify reads the files of tables, or all files of this node, as a job. Corrupt files are known to the node from then
// on, as if a request had found them; a repair restores what they contained. The result is of this attempt.
func (d *Data) Verify(ctx context.Context, a control.VerifyFilesArgs, report control.Report) (
	out control.VerifiedFiles, err error) {
	if _, err := d.catalog.Tables(a.TablesArgs); err != nil {
		return out, err
	}
	if a.BytesPerSecond < 0 {
		return out, &control.Error{Code: control.Invalid,
			Message: "the throughput must not be negative; 0 means no bound"}
	}
	// It has room for the result, so the job never waits for the command.
	result := make(chan database.Verified, 1)
	if err := d.jobs.start(ctx, jobs.Verification, targetOf(a.TablesArgs), jobs.Bytes, a,
		d.verificationWork(a, result), report); err != nil {
		return out, err
	}
	select {
	case v := <-result:
		return control.VerifiedFiles{Files: v.Files, Bytes: v.Bytes, Corrupt: v.Corrupt,
			Unrepaired: len(d.engine.Corruptions()) > 0 || len(d.engine.Lost()) > 0}, nil
	default:
		// The job was cancelled and resumed before this command has seen its end.
		return out, &control.Error{Code: control.Failed, Message: "the verification was resumed by another command"}
	}
}

// verificationWork returns the work of a verification. Its checkpoint is the number of the last file that was read:
// files are read in the order of their numbers, and a file that is written meanwhile has a higher one. result, which
// may be nil, receives the figures of a successful attempt.
func (d *Data) verificationWork(a control.VerifyFilesArgs, result chan<- database.Verified) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		var ids []schema.StorageID
		// Without names, all files: some have no rows of tables.
		if a.Keyspace != "" {
			tables, err := d.catalog.Tables(a.TablesArgs)
			if err != nil {
				return err
			}
			for _, t := range tables {
				// The rows of a virtual table are in no file.
				if !t.Virtual {
					ids = append(ids, t.StorageID)
				}
			}
			if len(ids) == 0 {
				return errors.New("the tables have no files")
			}
		}
		after, err := checkpointFile(j.Checkpoint())
		if err != nil {
			return err
		}
		p := pace{clock: d.clock, bytesPerSecond: a.BytesPerSecond, began: d.clock.Monotonic()}
		v, err := d.engine.Verify(ctx, database.Verification{
			Tables: ids,
			After:  after,
			Wait:   p.wait,
			Progress: func(done, total int64, file uint64) {
				j.Progress(done, total, fmt.Sprintf("file %06d", file))
				j.SetCheckpoint(binary.BigEndian.AppendUint64(nil, file))
			},
		})
		if err == nil && result != nil {
			result <- v
		}
		return err
	}
}

// checkpointFile returns the number in a checkpoint, 0 if there is none.
func checkpointFile(b []byte) (uint64, error) {
	switch len(b) {
	case 0:
		return 0, nil
	case 8:
		return binary.BigEndian.Uint64(b), nil
	}
	return 0, fmt.Errorf("node: a checkpoint of a verification has %d bytes", len(b))
}
