package guests

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/qemu"
)

var update = flag.Bool("update", false, "write the consoles to the samples of internal/console")

// samples are the consoles that internal/console is tested with, by CAUSE.NAME.txt.
const samples = "../../internal/console/testdata/boots"

// failure is a boot that goes wrong.
type failure struct {
	name  string
	cause console.Cause
	shown string // on the console, when it has gone wrong
	boot  func(*controlPlane) qemu.Options
}

// registered is what a kubelet writes when its Node exists.
const registered = `Successfully registered node`

func failures() []failure {
	return []failure{
		{"metadata", console.Metadata, `Used fallback datasource|DataSourceNone`, (*controlPlane).withoutMetadata},
		{"yaml", console.CloudConfig, `Failed loading yaml blob`, (*controlPlane).brokenYAML},
		{"no-route", console.Unreachable, `dial tcp 10\.0\.0\.9:443: `, (*controlPlane).elsewhere},
		{"dns", console.DNS, `lookup api\.example\.com`, (*controlPlane).unknownName},
		{"ca", console.UnknownCA, `x509: certificate signed by unknown authority`, (*controlPlane).otherCA},
		{"clock", console.Clock, `x509: certificate has expired or is not yet valid`, (*controlPlane).inThePast},
		{"expired-token", console.Unauthorized, `Unauthorized`, (*controlPlane).expiredToken},
		{"other-node", console.NodeName, `is forbidden: .*node`, (*controlPlane).otherNode},
		{"image", console.ImagePull, `\[ERROR ImagePull\]`, (*controlPlane).noRegistry},
		{"cni", console.NetworkPlugin, registered + `(?s:.*)cni plugin not initialized`, (*controlPlane).noCNI},
		{"full", console.Disk, `[Nn]o space left on device(?s:.*)Startup finished`, (*controlPlane).fullDisk},
		{"no-root", console.Disk, `/dev/vdz does not exist`, (*controlPlane).noRoot},
		{"swap", console.Swap, `swap on is not supported`, (*controlPlane).swapOn},
		{"cgroup-v1", console.Cgroup, `cgroup v1`, (*controlPlane).oldCgroups},
		{"no-cri", console.Runtime, `unknown service runtime\.v1\.`, (*controlPlane).noCRI},
		{"module", console.Module, `Module br_netfilter not found`, (*controlPlane).noModule},
		{"panic", console.Panic, `Kernel panic - not syncing: (?s:.*)Rebooting in`, (*controlPlane).panics},
		{"arm64", console.Architecture, `[Ee]xec format error`, (*controlPlane).otherArchitecture},
		{"healthy", console.Unknown, registered, (*controlPlane).healthy},
	}
}

// TestConsoles boots guests whose boot goes wrong in one way each, and has the end of their
// consoles, as long as drivers read it, show the cause. Two boot at once, since the processor
// is emulated.
func TestConsoles(t *testing.T) {
	t.Parallel()
	image := qemu.Require(t)
	p := startControlPlane(t)
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, f := range failures() {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(f.name, func(t *testing.T) { p.fails(t, image, f) })
		})
	}
	all.Wait()
}

// fails boots a guest, and compares what its console shows with the cause.
func (p *controlPlane) fails(t *testing.T, image string, f failure) {
	t.Helper()
	o := f.boot(p)
	o.Name, o.Disk, o.Addresses = f.name, filepath.Join(image, "disk.qcow2"), []string{serviceIP}
	began := time.Now()
	g := qemu.Start(t, o)
	p.answer(g.Listen(serviceIP + ":443"))
	g.AwaitConsole(f.shown)
	text := cloud.ConsoleTail(g.Console())
	t.Logf("after %.0f s, %d bytes", time.Since(began).Seconds(), len(text))
	if *update {
		name := strings.Join([]string{cmp.Or(string(f.cause), "Unknown"), f.name, "txt"}, ".")
		if err := os.WriteFile(filepath.Join(samples, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	v := console.Classify(text)
	if v.Cause != f.cause {
		t.Errorf("the console shows %q by %q, want %q:\n%s", v.Cause, v.Line, f.cause, text)
	}
}
