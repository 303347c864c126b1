package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestClassify: the messages of real programs, one file for each boot, lead to what a user has to correct.
func TestClassify(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		reason string
		want   Cause
		line   string // part of the line that shows it
		times  int
	}{
		"dhcp":       {"Without an offer there is no network.", Network, "No working leases", 2},
		"no-network": {"A call to the metadata service fails for the want of any network.", Network, "[18/120s]", 2},
		"metadata":   {"The guest has a network, and the service does not answer.", Metadata, "Giving up on md", 2},
		"schema":     {"cloud-init goes on with a part of the boot data.", CloudConfig, "Invalid cloud-config", 1},
		"yaml":       {"cloud-init drops all of it.", CloudConfig, "Failed at merging", 2},
		"pull":       {"A registry that does not answer is no API server.", ImagePull, "RunPodSandbox", 1},
		"pull-dns":   {"The name server is why the image cannot be pulled.", DNS, "lookup registry.example", 1},
		"route":      {"The API server's host is not reached.", Unreachable, "no route to host", 1},
		"api-timeout": {
			"A firewall that drops packets is seen as a timeout.", Unreachable, "Client.Timeout exceeded", 1,
		},
		"dns":        {"The API server's name is unknown.", DNS, "no such host", 1},
		"clock":      {"A guest in the past takes no certificate.", Clock, "is before", 1},
		"unknown-ca": {"Earlier failures are over, and every kubelet misses its CNI at first.", UnknownCA, "possibly", 2},
		"token":      {"kubeadm says what has become of the token.", Unauthorized, "invalid for this cluster", 1},
		"unauthorized": {
			"A kubelet that boots with a token hears 401.", Unauthorized, "certificate signing request: Unauthorized", 1,
		},
		"name": {"The credentials are those of another node.", NodeName, "only its own Node object", 2},
		"swap": {
			"The kubelet ends before it calls; that kubeadm did not get through at first is over.", Swap, "running with swap", 1,
		},
		"cgroup":    {"Two drivers of cgroups exclude each other.", Cgroup, "is different from", 1},
		"cgroup-v1": {"Kubelets since 1.35 refuse it.", Cgroup, "using cgroup v1", 1},
		"disk":      {"A full disk is why the image cannot be unpacked.", Disk, "no space left", 1},
		"fstab":     {"A volume that does not come keeps the guest in emergency mode.", Disk, "emergency mode", 3},
		"cni":       {"The node has joined and will not be ready.", NetworkPlugin, "cni plugin not initialized", 1},
		"joined":    {"What failed before the node joined is over.", Unknown, "", 0},
		"unknown":   {"A console that says nothing is not guessed about.", Unknown, "", 0},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			v := Classify(string(text))
			if v.Cause != c.want || v.Times != c.times || !strings.Contains(v.Line, c.line) {
				t.Errorf("got %q, %d times, by %q; want %q, %d times, by %q\nbecause: %s", v.Cause, v.Times, v.Line, c.want,
					c.times, c.line, c.reason)
			}
			if v.Summary == "" || v.Remedy == "" || (v.Cause == Unknown) != (v.Line == "") {
				t.Errorf("got %+v, want a summary and a remedy, and a line unless it is unknown", v)
			}
		})
	}
}

// TestEveryCauseHasASample: a pattern that no message of a real program has tried is a guess.
func TestEveryCauseHasASample(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := filepath.Glob("testdata/boots/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Cause]bool{}
	for _, file := range append(files, recorded...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen[Classify(string(text)).Cause] = true
	}
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !seen[r.cause] {
			t.Errorf("no sample has the cause %s", r.cause)
		}
		if !strings.Contains(string(doc), "| `"+string(r.cause)+"` | "+r.summary+" |") {
			t.Errorf("docs/operations.md has no row for %s: %s", r.cause, r.summary)
		}
	}
}

// TestOptionalModule: a service that tries a module which the kernel lacks does not hide why a node does not join.
func TestOptionalModule(t *testing.T) {
	t.Parallel()
	v := Classify("modprobe: FATAL: Module overlay not found in directory /lib/modules/6.1.0\n" +
		"kubelet[1]: dial tcp 192.0.2.1:6443: connect: no route to host\n")
	if v.Cause != Unreachable {
		t.Errorf("got %q, want %q", v.Cause, Unreachable)
	}
}

// TestTail: an unknown console shows how it ends, and no line fills a screen.
func TestTail(t *testing.T) {
	t.Parallel()
	v := Classify(strings.Repeat("line\n\n", 20) + strings.Repeat("é", 300) + "\n")
	if len(v.Tail) != 10 || v.Tail[0] != "line" {
		t.Fatalf("got %q, want ten lines", v.Tail)
	}
	if last := v.Tail[9]; len(last) > 410 || !utf8.ValidString(last) || !strings.HasSuffix(last, "…") {
		t.Errorf("got a last line of %d bytes, %q, want a part of it", len(last), last)
	}
	if v := Classify(""); v.Cause != Unknown || len(v.Tail) != 0 || v.Summary != "unknown" {
		t.Errorf("an empty console is %+v, want an unknown one", v)
	}
}

// TestOrdinaryWords: lines of healthy boots show no cause.
func TestOrdinaryWords(t *testing.T) {
	t.Parallel()
	for line, reason := range map[string]string{
		`sshd[1]: Accepted publickey`: "It has nothing to do with tokens.",
		`cloud-init[1]: 2026-01-01 - util.py[DEBUG]: open 'http://169.254.169.254/latest' ok`: "The service answers.",
		`systemd[1]: Timed out waiting for device /dev/virtio-ports/guest_agent.`:             "It is no disk.",
		`kubelet[1]: dial tcp 192.0.2.1:6443: connected`:                                      "It is no failure.",
		`ima: no space`: "Only a device can be full.",
		`cloud-init[1]: modprobe: FATAL: Module configs not found in directory /lib/modules/6.1.0`: "kubeadm does " +
			"without it.",
		`kubelet[1]: validate CRI v1 runtime API for endpoint "unix:///run/c.sock": connect: no such file`: "The " +
			"runtime is still starting.",
	} {
		if v := Classify(line + "\n"); v.Cause != Unknown {
			t.Errorf("%q shows %s\nbecause: %s", line, v.Cause, reason)
		}
	}
}
