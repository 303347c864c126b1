package openstack

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestProgramsDieWithUs: whatever happens to the process that started the rig,
// nothing of it goes on.
func TestProgramsDieWithUs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the children of a process that dies")
	}
	starter := exec.Command(os.Args[0], "-test.run=^TestStarter$", "-test.v")
	starter.Env = append(os.Environ(), "RIG_TEST_STARTER="+filepath.Join(t.TempDir(), "log"))
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "started "); found {
			if pid, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 {
		t.Fatal("nothing was started")
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait() // it was killed
	Until(t, "the program dies", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(text), ") Z ") || syscall.Kill(pid, 0) != nil
	})
}

// TestStarter is the process that dies in the test above.
func TestStarter(t *testing.T) {
	t.Parallel()
	log := os.Getenv("RIG_TEST_STARTER")
	if log == "" {
		t.Skip("a part of TestProgramsDieWithUs")
	}
	p, err := launch("sleep", log, nil, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nstarted %d\n", p.cmd.Process.Pid)
	<-p.done
}
