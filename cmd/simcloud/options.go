package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// options are what the flags say.
type options struct {
	listen, addressFile, stateFile, kubeconfig string
	seed                                       uint64
	settings                                   sim.Settings
	inCluster                                  bool
	configured                                 bool // settings were given; otherwise those of the state file stay
	kubelets                                   kubeletOptions
}

// kubeletOptions are what all kubelets have in common.
type kubeletOptions struct {
	leasePeriod time.Duration // 0: no leases
	readyDelay  time.Duration // from joining to Ready
	podGrace    time.Duration // longest time that a pod takes to end
	deleteNodes bool
	addresses   bool // those of the VM are on its Node
	workers     int
}

// rawFlags are flags that have to be put together.
type rawFlags struct {
	config, region, zones, capacity string
	latency, boot, remove, settle   time.Duration
}

// parse reads the flags. Usage and errors are printed to out.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	var raw rawFlags
	set := flag.NewFlagSet("simcloud", flag.ContinueOnError)
	set.SetOutput(out)
	const defaultWorkers = 32
	set.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 is any that is free")
	set.StringVar(&o.addressFile, "address-file", "", "`file` that the address is written to")
	set.StringVar(&o.stateFile, "state", "", "`file` that remembers the cloud, so that it can be started again")
	set.StringVar(&o.kubeconfig, "kubeconfig", "",
		"`file` with the credentials with which VMs keep their Nodes alive; none means that they only join")
	set.BoolVar(&o.inCluster, "in-cluster", false, "take the credentials of the pod's ServiceAccount for --kubeconfig")
	set.Uint64Var(&o.seed, "seed", 0, "of ids and random faults; 0 is a random one")
	set.StringVar(&raw.config, "config", "", "`file` with settings, in YAML, merged over the defaults")
	set.StringVar(&raw.region, "region", "sim-1", "`region` of --zones")
	set.StringVar(&raw.zones, "zones", "", "`zones` in place of the configured ones, separated by commas")
	set.StringVar(&raw.capacity, "capacity", "",
		"how many VMs fit in, as `zone/type=n`, separated by commas; what is not listed has no limit")
	set.DurationVar(&raw.latency, "latency", 0, "of every call of an account")
	set.DurationVar(&raw.boot, "boot-time", 0, "from a VM's creation until it runs")
	set.DurationVar(&raw.remove, "delete-time", 0, "from a VM's deletion until it is gone")
	set.DurationVar(&raw.settle, "settle", 0, "how long reads miss a new resource")
	set.DurationVar(&o.kubelets.leasePeriod, "lease-period", 10*time.Second,
		"between two renewals of a node's Lease; 0 is never")
	set.DurationVar(&o.kubelets.readyDelay, "node-ready-delay", 0, "from a node's registration until it is Ready")
	set.DurationVar(&o.kubelets.podGrace, "pod-grace", time.Second, "longest time that a pod takes to end")
	set.BoolVar(&o.kubelets.deleteNodes, "delete-nodes", true, "delete the Nodes of VMs that are gone")
	set.BoolVar(&o.kubelets.addresses, "node-addresses", true,
		"show the VM's addresses on its Node; network plugins of real nodes would route to them")
	set.IntVar(&o.kubelets.workers, "workers", defaultWorkers, "how many kubelets work at once")
	if err := set.Parse(args); err != nil {
		return o, fmt.Errorf("read flags: %w", err)
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if o.inCluster && o.kubeconfig != "" {
		return o, errors.New("--in-cluster and --kubeconfig are alternatives: leave one of them out")
	}
	if o.kubelets.workers < 1 {
		return o, errors.New("--workers has to be at least 1")
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.seed = seedOr(o.seed)
	return o, o.settle(raw, given)
}

// seedOr returns seed, or a random one in place of 0.
func seedOr(seed uint64) uint64 {
	for seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		seed = binary.BigEndian.Uint64(b[:]) >> 1
	}
	return seed
}

// settle puts the settings together: the defaults, the file, the flags.
func (o *options) settle(raw rawFlags, given map[string]bool) error {
	o.settings = sim.DefaultSettings()
	if raw.config != "" {
		if err := readSettings(raw.config, &o.settings); err != nil {
			return err
		}
	}
	if given["latency"] {
		o.settings.Latency = map[string]sim.Duration{"*": sim.Duration(raw.latency)}
	}
	for name, into := range map[string]*sim.Duration{
		"boot-time": &o.settings.BootTime, "delete-time": &o.settings.DeleteTime, "settle": &o.settings.Settle,
	} {
		if given[name] {
			*into = sim.Duration(map[string]time.Duration{
				"boot-time": raw.boot, "delete-time": raw.remove,
				"settle": raw.settle,
			}[name])
		}
	}
	for _, name := range []string{"config", "latency", "boot-time", "delete-time", "settle", "zones", "capacity"} {
		o.configured = o.configured || given[name]
	}
	setZones(&o.settings, raw)
	return setCapacity(&o.settings, raw.capacity)
}

// readSettings merges a file over what is there; lists are replaced.
func readSettings(file string, into *sim.Settings) error {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	var patch map[string]any
	if err := yaml.Unmarshal(text, &patch); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	merged, err := into.Merge(patch)
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	*into = merged
	return nil
}

// setZones replaces the zones, and moves the networks to their region.
func setZones(s *sim.Settings, raw rawFlags) {
	if raw.zones == "" {
		return
	}
	s.Zones = nil
	for name := range strings.SplitSeq(raw.zones, ",") {
		s.Zones = append(s.Zones, sim.Zone{Name: strings.TrimSpace(name), Region: raw.region})
	}
	for i := range s.Networks {
		s.Networks[i].Region = raw.region
	}
}

// setCapacity reads zone/type=n,….
func setCapacity(s *sim.Settings, text string) error {
	if text == "" {
		return nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		at, number, _ := strings.Cut(strings.TrimSpace(entry), "=")
		zone, instanceType, _ := strings.Cut(at, "/")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || instanceType == "" {
			return fmt.Errorf("--capacity: %q is not zone/type=n", entry)
		}
		if !limit(s, zone, instanceType, n) {
			return fmt.Errorf("--capacity: there is no zone %q", zone)
		}
	}
	return nil
}

// limit sets how many VMs of a type fit into a zone; false without such a zone.
func limit(s *sim.Settings, zone, instanceType string, n int) bool {
	for i := range s.Zones {
		if s.Zones[i].Name != zone {
			continue
		}
		if s.Zones[i].Capacity == nil {
			s.Zones[i].Capacity = map[string]int{}
		}
		s.Zones[i].Capacity[instanceType] = n
		return true
	}
	return false
}
