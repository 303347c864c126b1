package bootstrap_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
)

func TestPack(t *testing.T) {
	t.Parallel()
	long := "#cloud-config\n" + strings.Repeat("# a comment\n", 1000)
	noise := "#cloud-config\n"
	for i := range 100 {
		noise += fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i)}))
	}
	cases := map[string]struct {
		reason string
		data   string
		limit  int
		packed bool
		err    *bootstrap.TooLargeError
	}{
		"Fits":       {reason: "What fits is not touched, so that any agent can read it.", data: long, limit: len(long)},
		"NoLimit":    {reason: "0 is no limit.", data: long},
		"Compressed": {reason: "cloud-init unpacks what is too long.", data: long, limit: 1000, packed: true},
		"Ignition": {
			reason: "Ignition does not unpack, so its author has to shorten it.",
			data:   `{"ignition":{}}`, limit: 10, err: &bootstrap.TooLargeError{Size: 15, Limit: 10},
		},
		"Script": {
			reason: "Others than cloud-init run scripts.", data: "#!/bin/sh\nexit", limit: 5,
			err: &bootstrap.TooLargeError{Size: 14, Limit: 5},
		},
		"TooLong": {
			reason: "Compression has limits too.", data: noise, limit: 1000,
			err: &bootstrap.TooLargeError{Size: len(noise), Limit: 1000},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := bootstrap.Pack([]byte(tc.data), tc.limit)
			if tc.err != nil {
				e, ok := errors.AsType[*bootstrap.TooLargeError](err)
				if !ok || e.Size != tc.err.Size || e.Limit != tc.err.Limit {
					t.Fatalf("Pack() = %v, want %v: %s", err, tc.err, tc.reason)
				}
				if text := err.Error(); !strings.Contains(text, fmt.Sprint(e.Size)) ||
					!strings.Contains(text, fmt.Sprint(e.Limit)) {
					t.Errorf("%q has to name size and limit: %s", text, tc.reason)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, tc.reason)
			}
			if tc.limit > 0 && len(got) > tc.limit {
				t.Errorf("%d bytes, limit %d: %s", len(got), tc.limit, tc.reason)
			}
			if tc.packed {
				again, _ := bootstrap.Pack([]byte(tc.data), tc.limit)
				if !bytes.Equal(got, again) {
					t.Error("the same data has to give the same bytes: a repeated create must be the same call")
				}
				got = unpack(t, got)
			}
			if string(got) != tc.data {
				t.Errorf("the content has changed: %s", tc.reason)
			}
		})
	}
}

func unpack(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
