package driverkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTokenFiles: whoever writes a Secret chooses the path.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	outside, own := t.TempDir(), t.TempDir()
	write := func(path string, size int) {
		t.Helper()
		if err := os.WriteFile(path, bytes.Repeat([]byte("t"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		t.Helper()
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(outside, "secret"), 10)
	write(filepath.Join(own, "token"), 10)
	cases := map[string]struct {
		reason string
		make   func(folder string)
		path   string // in the folder; that is what it begins with otherwise
		files  TokenFiles
		says   string // part of the refusal; empty: it is read
		later  bool   // only reading fails
	}{
		"file": {reason: "It is a token.", make: func(f string) { write(filepath.Join(f, "token"), 10) }, path: "token"},
		"in a folder": {
			reason: "It is a token.", path: "d/t",
			make: func(f string) { _ = os.Mkdir(f+"/d", 0o700); write(f+"/d/t", 9) },
		},
		"largest": {reason: "It is a token.", make: func(f string) { write(f+"/token", MaxTokenFile) }, path: "token"},
		"projected volume": {
			reason: "The kubelet makes links that stay in the folder.",
			make: func(f string) {
				_ = os.Mkdir(f+"/..2026_11_28", 0o700)
				write(f+"/..2026_11_28/token", 10)
				link("..2026_11_28", f+"/..data")
				link("..data/token", f+"/token")
			},
			path: "token",
		},
		"too large": {
			reason: "It is no token.", make: func(f string) { write(f+"/token", MaxTokenFile+1) }, path: "token",
			says: "more than 65536 bytes", later: true,
		},
		"missing": {reason: "It may be mounted later.", path: "token", says: "cannot be read", later: true},
		"folder": {
			reason: "It is no file.", make: func(f string) { _ = os.Mkdir(f+"/d", 0o700) }, path: "d",
			says: "no regular file",
		},
		"the folder itself": {reason: "It is no file.", path: ".", says: "outside the folders"},
		"named pipe": {
			reason: "Reading it waits for a writer, for ever.",
			make: func(f string) {
				if err := syscall.Mkfifo(f+"/pipe", 0o600); err != nil {
					t.Fatal(err)
				}
			},
			path: "pipe", says: "no regular file",
		},
		"device": {
			reason: "It has no end, and the folder does not have it.",
			make:   func(f string) { link("/dev/zero", f+"/zero") }, path: "zero", says: "leads out of",
		},
		"link out": {
			reason: "It is a file of somebody else.",
			make:   func(f string) { link(filepath.Join(outside, "secret"), f+"/token") }, path: "token", says: "leads out of",
		},
		"relative link out": {
			reason: "It is a file of somebody else.",
			make:   func(f string) { link("../../../../../../etc/hostname", f+"/token") }, path: "token", says: "leads out of",
		},
		"folder by a link out": {
			reason: "It is a file of somebody else.", make: func(f string) { link(outside, f+"/d") }, path: "d/secret",
			says: "leads out of",
		},
		"dots": {reason: "It is not in the folder.", path: "../x/token", says: "outside the folders"},
		"outside": {
			reason: "The operator has not named the folder.", path: filepath.Join(outside, "secret"),
			says: "outside the folders",
		},
		"no absolute path": {reason: "It depends on the working folder.", path: "./token", says: "no absolute path"},
		"token of the manager": {
			reason: "The API server knows the manager by it.", path: filepath.Join(own, "token"),
			says: "the API server knows the manager",
		},
		"token of the manager in a folder that is open": {
			reason: "A folder above does not mean it.", path: filepath.Join(own, "token"),
			files: TokenFiles{Folders: []string{filepath.Dir(own)}}, says: "the API server knows the manager",
		},
		"token of the manager, opened": {
			reason: "The operator has named its folder.", path: filepath.Join(own, "token"),
			files: TokenFiles{Folders: []string{own}},
		},
		"token of the manager by another name": {
			reason: "It is the same file.",
			make: func(f string) {
				if err := os.Link(filepath.Join(own, "token"), f+"/token"); err != nil {
					t.Fatal(err)
				}
			},
			path: "token", says: "identity of the manager",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			folder, path := t.TempDir(), tc.path
			if tc.make != nil {
				tc.make(folder)
			}
			if !filepath.IsAbs(path) && !strings.HasPrefix(path, "./") {
				path = folder + "/" + path
			}
			files := tc.files
			files.Folders, files.serviceAccount = append(files.Folders, folder), own
			if problem := files.Problem(path); (problem == "") != (tc.says == "" || tc.later) ||
				!tc.later && !strings.Contains(problem, tc.says) {
				t.Errorf("problem %q, want %q\nbecause: %s", problem, tc.says, tc.reason)
			}
			content, err := files.Read("workloadIdentityTokenFile", path)
			if (err == nil) != (tc.says == "") || (len(content) > 0) != (tc.says == "") {
				t.Fatalf("read %d bytes, %v\nbecause: %s", len(content), err, tc.reason)
			}
			if err != nil && (!strings.Contains(err.Error(), tc.says) ||
				!strings.Contains(err.Error(), "entry workloadIdentityTokenFile")) {
				t.Errorf("got %v, want %q and the entry\nbecause: %s", err, tc.says, tc.reason)
			}
		})
	}
}
