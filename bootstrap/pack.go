package bootstrap

import (
	"bytes"
	"compress/gzip"
	"fmt"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TooLargeError means that the data is longer than the cloud accepts.
type TooLargeError struct {
	Size   int // bytes as written
	Packed int // bytes after compression; 0 if the format does not allow it
	Limit  int // bytes the cloud accepts
}

// Error returns the sizes and what to do, never the content.
func (e *TooLargeError) Error() string {
	if e.Packed > 0 {
		return fmt.Sprintf("boot data is %d bytes, %d when compressed, and the cloud accepts %d: shorten it", e.Size,
			e.Packed, e.Limit)
	}
	return fmt.Sprintf("boot data is %d bytes, and the cloud accepts %d: shorten it, or let it fetch the rest", e.Size,
		e.Limit)
}

// Pack returns data if it has at most limit bytes. Longer data is compressed
// with gzip if only cloud-init can be its reader, since cloud-init decompresses it;
// ignition and plain scripts are read by programs that do not. Equal data gives equal
// bytes, so that a repeated create call has the same body. A limit of 0 means none.
// The error is a *TooLargeError.
func Pack(data []byte, limit int) ([]byte, error) {
	if limit <= 0 || len(data) <= limit {
		return data, nil
	}
	if !cloud.OnlyCloudInit(data) {
		return nil, &TooLargeError{Size: len(data), Limit: limit}
	}
	packed, err := compress(data)
	if err != nil {
		return nil, fmt.Errorf("compress boot data: %w", err)
	}
	if len(packed) > limit {
		return nil, &TooLargeError{Size: len(data), Packed: len(packed), Limit: limit}
	}
	return packed, nil
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
