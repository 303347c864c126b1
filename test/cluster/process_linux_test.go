package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// orphanDir makes the test binary a program that starts a cluster there, says
// so, and stays.
const orphanDir = "CLUSTER_TEST_ORPHAN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanDir); dir != "" {
		if _, err := cluster.Start(context.Background(), cluster.Options{Dir: dir}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("started")
		select {}
	}
	os.Exit(m.Run())
}

func TestProcessesDieWithTheirParent(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), orphanDir+"="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "started\n" || len(withArgument(t, dir)) != 2 {
		t.Fatalf("the parent said %q, and these run: %v", line, withArgument(t, dir))
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			return len(withArgument(t, dir)) == 0, nil
		})
	if err != nil {
		t.Errorf("these survive their parent: %v", withArgument(t, dir))
	}
}

// withArgument returns the command lines of processes that name text.
func withArgument(t *testing.T, text string) []string {
	t.Helper()
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range processes {
		line, err := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
