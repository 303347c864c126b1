package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// userDataCanary is a secret in the boot data of the pool, like those of users.
const userDataCanary = "canary-in-the-user-data-7hq2"

// newManager is a pod whose sidecar is a manager for all, at a port of its own.
func newManager(t *testing.T, more ...string) *pod {
	t.Helper()
	p := newPod(t)
	port := strconv.Itoa(process.PortForTest(t))
	p.ports = map[string]string{sidecar: port}
	p.args[sidecar] = append(p.args[sidecar], append(more, "--port="+port, "--machine-controller-port=0")...)
	p.start(sidecar)
	p.await(time.Minute, func(ctx context.Context) string {
		if p.get(ctx, sidecar, "/readyz") == "" {
			return "the manager is not ready"
		}
		return ""
	})
	return p
}

// requireNoSecrets fails if the log of any container has a credential of the cloud, boot
// data or a bootstrap token.
func (p *pod) requireNoSecrets() {
	p.t.Helper()
	canaries := []string{userDataCanary, sim.DefaultSettings().Accounts[0].SecretKeys[0]}
	tokens := &corev1.SecretList{}
	if err := p.admin.List(p.t.Context(), tokens, client.InNamespace("kube-system")); err != nil {
		p.t.Fatal(err)
	}
	for _, token := range tokens.Items {
		if secret := token.Data["token-secret"]; len(secret) > 0 {
			canaries = append(canaries, string(secret))
		}
	}
	logs, err := filepath.Glob(filepath.Join(p.dir, "*.log"))
	if err != nil || len(logs) == 0 {
		p.t.Fatalf("no logs: %v", err)
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, canary := range canaries {
			if strings.Contains(string(text), canary) {
				p.t.Errorf("%s has a secret: %s", filepath.Base(name), canary)
			}
		}
	}
}

var (
	// header is what klog puts before each line.
	header = regexp.MustCompile(`^[IWE]\d{4} \S+ +(\d+ )?\S+\] `)
	// told is the message of a line about an effect, and what it is about.
	told = regexp.MustCompile(`^("[A-Z][^"]+") .*(kind="\w+"|attempt=\d+|providerID="[^"]*")`)
	// phase is the new phase.
	phase = regexp.MustCompile(` (phase="\w+")`)
)

// effectsOf are the lines of a log that tell of effects, sorted: the message, the kind of
// the object, and the phase. Events are left out: they are written on their own time.
func effectsOf(log string) []string {
	var found []string
	for line := range strings.Lines(log) {
		text := header.ReplaceAllString(strings.TrimSpace(line), "")
		match := told.FindStringSubmatch(text)
		if match == nil || match[1] == `"Event occurred"` || match[1] == `"Starting EventSource"` {
			continue
		}
		about := match[1]
		for _, kind := range regexp.MustCompile(` (kind="\w+")`).FindAllStringSubmatch(text, -1) {
			about += " " + kind[1]
		}
		if match := phase.FindStringSubmatch(text); match != nil {
			about += " " + match[1]
		}
		found = append(found, about)
	}
	slices.Sort(found)
	return found
}

// TestMachineLog: the life of a machine is logged as docs/monitoring.md shows it, and no
// secret is.
func TestMachineLog(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "<!-- the life of a machine -->")
	_, block, _ = strings.Cut(block, "```text\n")
	block, _, _ = strings.Cut(block, "```")
	p := newManager(t, "--v=0")
	p.requireMachines(1)
	p.requireNoSecrets()
	p.join()
	p.scale(0)
	log := ""
	p.await(time.Minute, func(ctx context.Context) string {
		if len(p.machines(ctx)) > 0 {
			return "the machine is not deleted"
		}
		if log = p.containers[sidecar].Output(); len(effectsOf(log)) == 0 {
			return "the log has no effects"
		}
		return cmp.Diff(effectsOf(block), effectsOf(log)) // the last line follows the deletion
	})
	for _, key := range []string{"ownerID=", "providerID=", "attempt=1", "cause=", `reason="SuccessfulCreate"`} {
		if !strings.Contains(log, key) {
			t.Errorf("the log has no %s", key)
		}
	}
	p.requireNoSecrets()
}

// TestLogFormatJSON: every line of the log is a JSON object, also with a high verbosity,
// and none has a secret.
func TestLogFormatJSON(t *testing.T) {
	t.Parallel()
	p := newManager(t, "--logging-format=json", "--v=5")
	p.requireMachines(1)
	p.await(time.Minute, func(context.Context) string {
		messages := p.jsonMessages()
		for _, want := range []string{"Starting", "Created VM", "Recorded VM", "Changed phase", "Event occurred"} {
			if !slices.Contains(messages, want) {
				return "no line says " + want
			}
		}
		return ""
	})
	p.requireNoSecrets()
}

// jsonMessages are the messages of a log whose lines are JSON objects.
func (p *pod) jsonMessages() []string {
	p.t.Helper()
	var messages []string
	for line := range strings.Lines(p.containers[sidecar].Output()) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var entry struct {
			Message string `json:"msg"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			p.t.Fatalf("%v: %s", err, line)
		}
		messages = append(messages, entry.Message)
	}
	return messages
}
