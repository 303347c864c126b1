package driverkit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// MaxTokenFile is how many bytes a file with a token may have.
const MaxTokenFile = 64 << 10

// TokenFolders returns the folders in which Gardener and the workload identity webhooks of AWS and
// Azure mount tokens into pods.
func TokenFolders() []string {
	return []string{
		"/var/run/secrets/gardener.cloud/workload-identity", "/var/run/secrets/eks.amazonaws.com/serviceaccount",
		"/var/run/secrets/azure/tokens",
	}
}

// serviceAccountFolder is where Kubernetes mounts the token by which the API server knows a pod.
const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// TokenFiles are the files with tokens that Secrets may name. Whoever writes a Secret chooses the
// path, and what is read is sent to a cloud. So only regular files of limited size are read, in
// TokenFolders and Folders, and no symbolic link leads out of these: those of projected volumes
// stay in their folder. The zero value is for TokenFolders. It is safe for concurrent use.
type TokenFiles struct {
	// Folders are more folders; each is absolute. The manager's own token for the API server is read
	// only if one of them is its folder, or in that: a folder above is not enough.
	Folders []string
	// Ambient lets Secrets name the token of the identity that a webhook has given to this process.
	Ambient bool

	serviceAccount string // in place of serviceAccountFolder
}

// Problem returns why the file of that path is not read, as the end of a sentence about the entry of
// the Secret that names it; empty if it may be read. A file that is not there yet is no problem.
func (t TokenFiles) Problem(path string) string {
	file, err := t.open(path)
	if err == nil {
		_ = file.Close()
		return ""
	}
	if refused, ok := errors.AsType[fileError](err); ok {
		return string(refused)
	}
	return ""
}

// Read returns the content of the file that an entry of a Secret names, without the white space
// around it. The error names entry and path, and what to do; it quotes nothing of the content.
func (t TokenFiles) Read(entry, path string) ([]byte, error) {
	file, err := t.open(path)
	var content []byte
	if err == nil {
		defer func() { _ = file.Close() }()
		content, err = io.ReadAll(io.LimitReader(file, MaxTokenFile+1))
	}
	if refused, ok := errors.AsType[fileError](err); ok {
		return nil, fmt.Errorf("the Secret's entry %s %s", entry, string(refused))
	}
	if err != nil {
		return nil, fmt.Errorf("the Secret's entry %s names %s, which cannot be read: %w; mount a token there, or correct "+
			"the path", entry, path, Innermost(err))
	}
	if len(content) > MaxTokenFile {
		return nil, fmt.Errorf("the Secret's entry %s names %s, which has more than %d bytes and is no token; correct the "+
			"path", entry, path, MaxTokenFile)
	}
	return []byte(strings.TrimSpace(string(content))), nil
}

// fileError is why a file is not read, whatever its content.
type fileError string

func (r fileError) Error() string { return string(r) }

// open opens a file that may be read. It does not wait for a writer, as of a named pipe.
func (t TokenFiles) open(path string) (*os.File, error) {
	folder, err := t.folderOf(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	name, err := filepath.Rel(folder, filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	special := fileError("names " + path + ", which is no regular file; name one with a token")
	found, err := root.Stat(name)
	if _, ofTheSystem := errors.AsType[syscall.Errno](err); err != nil && !ofTheSystem {
		return nil, fileError("names " + path + ", which leads out of " + folder + "; name a file that is in that folder")
	}
	if err != nil {
		return nil, err
	}
	if !found.Mode().IsRegular() {
		return nil, special // to open a device may have an effect
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	found, err = file.Stat()
	switch {
	case err != nil:
	case !found.Mode().IsRegular(): // it has been replaced since
		err = special
	case t.isOwn(found):
		err = fileError("is the identity of the manager itself; name another token or give credentials in the Secret, " +
			"or start the manager with --ambient-credentials")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// folderOf returns the folder because of which the file may be read.
func (t TokenFiles) folderOf(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fileError("is no absolute path; write one, e.g. " + TokenFolders()[0] + "/token")
	}
	if within(t.ownFolder(), path) && !t.opensOwn() {
		return "", fileError("names the token by which the API server knows the manager; mount a token of its own for " +
			"the cloud, and name that")
	}
	for _, folder := range slices.Concat(TokenFolders(), t.Folders) {
		if within(folder, path) {
			return folder, nil
		}
	}
	return "", fileError("names a file outside the folders for tokens (" + strings.Join(slices.Concat(TokenFolders(),
		t.Folders), ", ") + "); mount the token there, or start the manager with --token-folders")
}

// within reports whether a path is below a folder, by its name alone.
func within(folder, path string) bool {
	name, err := filepath.Rel(folder, filepath.Clean(path))
	return err == nil && name != "." && filepath.IsLocal(name)
}

func (t TokenFiles) ownFolder() string {
	if t.serviceAccount != "" {
		return t.serviceAccount
	}
	return serviceAccountFolder
}

// opensOwn reports whether the operator lets Secrets name the manager's own token.
func (t TokenFiles) opensOwn() bool {
	return slices.ContainsFunc(t.Folders, func(folder string) bool {
		return filepath.Clean(folder) == t.ownFolder() || within(t.ownFolder(), folder)
	})
}

// isOwn reports whether a file is a token of the manager itself, whatever its path, by which whoever
// writes Secrets would act as the manager.
func (t TokenFiles) isOwn(found os.FileInfo) bool {
	var own []string
	if !t.opensOwn() {
		own = append(own, filepath.Join(t.ownFolder(), "token"))
	}
	if !t.Ambient {
		own = append(own, os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
			os.Getenv("AZURE_FEDERATED_TOKEN_FILE"))
	}
	return slices.ContainsFunc(own, func(path string) bool {
		is, err := os.Stat(path)
		return err == nil && os.SameFile(found, is)
	})
}
