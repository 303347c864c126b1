package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile, with its continuation lines.
type instruction struct{ name, args string }

// stages are the instructions of the Dockerfile, by stage.
func stages(t *testing.T) [][]instruction {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]instruction
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		name, args, found := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case !found || strings.HasPrefix(name, "#") || len(all) == 0 && name != "FROM":
			continue
		case name == "FROM":
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], instruction{name, strings.TrimSpace(args)})
	}
	return all
}

// image is what the last stage makes: a folder that stands for its file system, and
// what is started where.
type image struct {
	root, workDir string
	entrypoint    []string
}

// compiler stands for Go: it makes a program that tells how it was started, and refuses
// one that would need a C library, which the base does not have.
const compiler = `#!/bin/sh
[ "$CGO_ENABLED" = 0 ] || { echo "the binary would not be static" >&2; exit 1; }
while [ $# -gt 0 ]; do
	[ "$1" = -o ] && { printf '#!/bin/sh\necho "$0" "$@"\n' > "$2" && chmod 755 "$2"; exit; }
	shift
done
exit 1
`

// unpacked plays the Dockerfile in temporary folders, without a container runtime.
func unpacked(t *testing.T) image {
	t.Helper()
	tools, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte(compiler), 0o700); err != nil {
		t.Fatal(err)
	}
	all := stages(t)
	mounts := regexp.MustCompile(`--mount=\S+`)
	for _, i := range all[0] {
		if i.name != "RUN" || !strings.Contains(i.args, "/out/") {
			continue
		}
		script := strings.ReplaceAll(mounts.ReplaceAllString(i.args, ""), "/out/", out+"/")
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "VERSION=v1")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, said)
		}
	}
	// The base for users that are not root has a working directory of theirs.
	made := image{root: t.TempDir(), workDir: "/home/nonroot"}
	for _, i := range all[len(all)-1] {
		switch i.name {
		case "WORKDIR":
			made.workDir = i.args
		case "COPY":
			if i.args != "--from=build /out/ /" {
				t.Fatalf("this test does not know COPY %s", i.args)
			}
			if err := os.CopyFS(made.root, os.DirFS(out)); err != nil {
				t.Fatal(err)
			}
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(i.args), &made.entrypoint); err != nil {
				t.Fatalf("ENTRYPOINT %s: %v", i.args, err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(made.root, made.workDir), 0o750); err != nil {
		t.Fatal(err)
	}
	return made
}

// start starts a container's command in the image and returns what it printed.
func (m image) start(t *testing.T, command ...string) string {
	t.Helper()
	program := command[0]
	if filepath.IsAbs(program) {
		program = filepath.Join(m.root, program)
	}
	cmd := exec.CommandContext(t.Context(), program, command[1:]...)
	cmd.Dir = filepath.Join(m.root, m.workDir)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v in %s: %v\n%s", command, m.workDir, err, said)
	}
	return string(said)
}

// TestImage: both containers of Gardener's pod find their program in the image.
func TestImage(t *testing.T) {
	t.Parallel()
	m := unpacked(t)
	sidecar := m.start(t, append(m.entrypoint, "--port=10259")...)
	if !strings.HasSuffix(sidecar, "/"+binary+" --port=10259\n") {
		t.Errorf("the sidecar, which gives arguments only, starts %q", sidecar)
	}
	first := m.start(t, "./machine-controller-manager", "--port=10258")
	if first != "./machine-controller-manager --port=10258\n" {
		t.Errorf("the first container starts %q", first)
	}
}
