package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Encode returns the stored form of the file, with a checksum.
func (f *File) Encode() ([]byte, error) {
	sum, err := f.sum()
	if err != nil {
		return nil, err
	}
	sealed := *f
	sealed.Sum = sum
	return json.Marshal(&sealed)
}

// sum returns the checksum of all other fields.
func (f *File) sum() (string, error) {
	unsealed := *f
	unsealed.Sum = ""
	b, err := json.Marshal(&unsealed)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// errDamaged means that a file was truncated or modified.
var errDamaged = errors.New("recovery: the file is damaged, or no file of `cqld recover start`")

// DecodeFile decodes the output of Encode.
func DecodeFile(b []byte) (*File, error) {
	f := new(File)
	if json.Unmarshal(b, f) != nil || f.Format == 0 {
		return nil, errDamaged
	}
	if f.Format != fileFormat {
		return nil, fmt.Errorf("recovery: a file of format %d, this build reads %d", f.Format, fileFormat)
	}
	sum, err := f.sum()
	if err != nil {
		return nil, err
	}
	if sum != f.Sum || len(f.Recoveries) == 0 {
		return nil, errDamaged
	}
	return f, nil
}

// DecodeReport decodes a Report from JSON.
func DecodeReport(b []byte) (*Report, error) {
	r := new(Report)
	if json.Unmarshal(b, r) != nil || r.Format == 0 {
		return nil, errors.New("recovery: the file is no report of `cqld recover inspect`")
	}
	return r, nil
}
