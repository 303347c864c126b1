// Package browser shows pages in a real browser, for tests: Debian's Chromium without a window. Each call starts
// one of its own, with an empty profile, and waits until it has ended.
package browser

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// packages are those of Debian that the tests need. .ci/run installs them.
//
//go:embed packages
var packages string

const (
	// budget is how long scripts and timers of a page run, in the page's own time: it stands still while the page
	// waits for an answer, and passes at once while the page waits for a timer.
	budget = 3 * time.Second
	// most is how long a browser may take on a machine with much else to do.
	most = 2 * time.Minute
)

// Dark makes pages see that their reader prefers dark colours.
const Dark = "--blink-settings=preferredColorScheme=0"

// Find returns the path of the browser. Without one it ends the test: as a failure if CI is true and could install
// it, otherwise as a skip with what to do.
func Find(t testing.TB) string {
	t.Helper()
	found, err := exec.LookPath("chromium")
	switch why := os.Getenv("CHROMIUM_NOT_INSTALLED"); {
	case err == nil:
		return found
	case why != "":
		t.Skipf("no browser here: %v: %s", err, why)
	case os.Getenv("CI") == "true":
		t.Fatalf("no browser here: %v", err)
	default:
		t.Skipf("no browser here: %v; as root: apt-get install --no-install-recommends %s", err,
			strings.TrimSpace(packages))
	}
	return ""
}

// DOM returns the page at a URL as HTML, as its scripts have left it after budget. More flags of the browser may
// follow.
func DOM(t testing.TB, url string, flags ...string) string {
	t.Helper()
	out := start(t, url, append([]string{"--dump-dom"}, flags...))
	if len(bytes.TrimSpace(out)) == 0 {
		t.Fatalf("open %s: the browser shows an empty page", url)
	}
	return string(out)
}

// Screenshot returns a picture of the page at a URL, as PNG, in a window of that size. More flags of the browser
// may follow.
func Screenshot(t testing.TB, url string, width, height int, flags ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.png")
	size := "--window-size=" + strconv.Itoa(width) + "," + strconv.Itoa(height)
	start(t, url, append([]string{"--screenshot=" + file, size, "--hide-scrollbars"}, flags...))
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("open %s: the browser made no picture: %v", url, err)
	}
	return picture
}

// start runs a browser to its end, and returns what it printed.
func start(t testing.TB, url string, flags []string) []byte {
	t.Helper()
	program := Find(t)
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-extensions", "--user-data-dir=" + profile(t),
		fmt.Sprintf("--virtual-time-budget=%d", budget.Milliseconds()),
	}, flags...)
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append(args, url)...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &log, 10*time.Second
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) { // its helpers may end a little later
		t.Fatalf("open %s: %v; the browser says:\n%s", url, err, log.String())
	}
	return out.Bytes()
}

// profile is an empty folder. Helpers of a browser may still write to it when the browser has ended, so that it
// goes as far as it can with the test, and the rest with the machine's other temporary files.
func profile(t testing.TB) string {
	t.Helper()
	//nolint:usetesting // t.TempDir fails a test whose folder is still written to
	folder, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
