package storage

import (
	crand "crypto/rand"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/cputime"
	"cqld/row"
	"cqld/storage/encryption"
)

// encrypted returns a file system that stores encrypted files in below.
func encrypted(tb testing.TB, below vfs.FS) *encryption.FS {
	tb.Helper()
	keys, err := encryption.ParseKeys("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
	if err != nil {
		tb.Fatal(err)
	}
	return encryption.New(below, keys, crand.Reader)
}

// BenchmarkEncryption measures how much more processor time inserts and reads take with encryption. Rounds with and
// without it alternate, and the ratios are of the medians and of the least times, so that other work of the machine
// counts for both. Inserts are durable, and include flushes and compactions. Reads find their blocks in the page cache
// of the kernel ("Disk"), the blocks of indexes as well, or decrypted in the node's own ("Cache").
func BenchmarkEncryption(b *testing.B) {
	for name, run := range map[string]func(b *testing.B, fs vfs.FS) func(){
		"Insert":    encryptionInserts,
		"ReadDisk":  func(b *testing.B, fs vfs.FS) func() { return encryptionReads(b, fs, 1<<10) },
		"ReadCache": func(b *testing.B, fs vfs.FS) func() { return encryptionReads(b, fs, 256<<20) },
	} {
		b.Run(name, func(b *testing.B) {
			plain, encrypted := run(b, vfs.Default), run(b, encrypted(b, vfs.Default))
			var times [2][]float64
			for n := 0; b.Loop(); n++ {
				for i := range times {
					// The first of two rounds pays for garbage of the one before.
					i = (i + n) % 2
					runtime.GC()
					before := cputime.Process()
					[]func(){plain, encrypted}[i]()
					times[i] = append(times[i], float64(cputime.Process()-before)/encryptionRound)
				}
			}
			for i := range times {
				slices.Sort(times[i])
			}
			middle := len(times[0]) / 2
			b.ReportMetric(times[0][middle], "cpu-ns/clear")
			b.ReportMetric(times[1][middle], "cpu-ns/encrypted")
			b.ReportMetric(times[1][middle]/times[0][middle], "cpu-ratio")
			b.ReportMetric(times[1][0]/times[0][0], "cpu-ratio-min")
		})
	}
}

// encryptionRound is the number of inserts or reads of a round.
const encryptionRound = 20_000

// encryptionRows makes rows with five cells of the same 40 random bytes: files of equal values would be much smaller
// than usual ones.
type encryptionRows struct {
	mutations []*row.Mutation // of one row
	row       *row.Row
	random    *rand.ChaCha8
	value     [40]byte
}

func newEncryptionRows() *encryptionRows {
	return &encryptionRows{mutations: []*row.Mutation{new(row.Mutation)}, row: row.NewRow(),
		random: rand.NewChaCha8([32]byte{1})}
}

// next makes the next row.
func (e *encryptionRows) next(partition, n int) {
	// A ChaCha8 never fails.
	_, _ = e.random.Read(e.value[:])
	benchMutationOf(e.mutations[0], e.row, benchKey(partition), n, 1, e.value[:])
}

// encryptionInserts returns a round of inserts. Each round opens and closes its own engine, because compactions of one
// round would slow down the next.
func encryptionInserts(b *testing.B, fs vfs.FS) func() {
	rows := newEncryptionRows()
	return func() {
		e := openTest(b, Options{FS: fs, Dir: b.TempDir(), MemTableBytes: 1 << 20, BallastBytes: -1})
		var wait sync.WaitGroup
		for next := range encryptionRound {
			rows.next(next%benchPartitions, next/benchPartitions)
			wait.Add(1)
			mustTake(b, e, rows.mutations, true, func(error) { wait.Done() })
			if next%64 == 63 {
				wait.Wait()
			}
		}
		wait.Wait()
		if err := e.Flush(); err != nil {
			b.Fatal(err)
		}
		await.Until(b, "compactions have ended", func() bool {
			m := e.db.Metrics()
			return m.Flush.NumInProgress+m.Compact.NumInProgress == 0
		})
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// encryptionReads returns a round of reads of single rows.
func encryptionReads(b *testing.B, fs vfs.FS, cache int64) func() {
	// The cache is larger by two memtables.
	e := openTest(b, Options{FS: fs, Dir: b.TempDir(), Sync: SyncNone, CacheBytes: cache, MemTableBytes: 512 << 10})
	b.Cleanup(func() { e.Close() })
	var wait sync.WaitGroup
	rows := newEncryptionRows()
	for i := range benchPartitions * benchRows {
		wait.Add(1)
		rows.next(i%benchPartitions, i/benchPartitions)
		mustTake(b, e, rows.mutations, false, func(error) { wait.Done() })
	}
	wait.Wait()
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	cmd := &row.ReadCommand{Table: testTable, Now: 1_000_000}
	var page []byte
	next := 0
	return func() {
		for range encryptionRound {
			next++
			cmd.Key, cmd.Slices = benchKey(next*7919%benchPartitions), []row.Slice{exactRow(next * 31 % benchRows)}
			var err error
			if page, err = e.Read(page[:0], cmd); err != nil {
				b.Fatal(err)
			}
		}
	}
}
