package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// bootData is what a VM reads from its user data, as docs/clouds/sim.md says.
type bootData struct {
	Server string `json:"server"` // URL of the API server
	CAData string `json:"caData"` // base64 of its CA's certificate
	Token  string `json:"token"`  // bootstrap token

	NodeName       string            `json:"nodeName"`
	Labels         map[string]string `json:"labels,omitempty"`
	Taints         []corev1.Taint    `json:"taints,omitempty"`
	KubeletVersion string            `json:"kubeletVersion,omitempty"`

	behaviour
}

// behaviour is how well a kubelet does. A field that is nil is not decided.
type behaviour struct {
	Join       *string           `json:"join,omitempty"`       // "always" or "never"
	JoinDelay  *sim.Duration     `json:"joinDelay,omitempty"`  // from running to registering
	Ready      *bool             `json:"ready,omitempty"`      // whether the node gets and stays Ready
	ReadyDelay *sim.Duration     `json:"readyDelay,omitempty"` // from registering to Ready
	Conditions map[string]string `json:"conditions,omitempty"` // further conditions of the node: type to status
	Lease      *bool             `json:"lease,omitempty"`      // whether the Lease is renewed
	Pods       *bool             `json:"pods,omitempty"`       // whether pods are run and ended
	Lasting    *bool             `json:"lasting,omitempty"`    // whether what was set by hand outlasts a reboot
}

const joinNever = "never"

// readBootData reads user data: YAML, compressed or not. Keys that are not known
// are left alone, so that it can be part of a larger cloud-config.
func readBootData(raw []byte) (bootData, error) {
	const unpackedMax = 1 << 20
	var b bootData
	if len(raw) == 0 {
		return b, errors.New("there is no user data")
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return b, fmt.Errorf("unpack user data: %w", err)
		}
		if raw, err = io.ReadAll(io.LimitReader(packed, unpackedMax)); err != nil {
			return b, fmt.Errorf("unpack user data: %w", err)
		}
	}
	if err := yaml.Unmarshal(raw, &b); err != nil {
		return b, fmt.Errorf("user data is no YAML of the expected form: %w", err)
	}
	return b, b.check()
}

// check names what is missing for joining a cluster.
func (b *bootData) check() error {
	if b.Join != nil && *b.Join == joinNever {
		return nil
	}
	for _, entry := range []struct{ key, value string }{{"server", b.Server}, {"token", b.Token}} {
		if entry.value == "" {
			return fmt.Errorf("user data has no %s", entry.key)
		}
		if strings.Contains(entry.value, "<<") {
			return fmt.Errorf("user data has a placeholder for %s that nobody replaced", entry.key)
		}
	}
	if _, err := base64.StdEncoding.DecodeString(b.CAData); err != nil {
		return fmt.Errorf("caData in user data is no base64: %w", err)
	}
	return nil
}

// merged returns how the kubelet behaves when over decides what it can.
func (b behaviour) merged(over behaviour) behaviour {
	conditions := map[string]string{}
	maps.Copy(conditions, b.Conditions)
	maps.Copy(conditions, over.Conditions)
	return behaviour{
		Join: cmp.Or(over.Join, b.Join), JoinDelay: cmp.Or(over.JoinDelay, b.JoinDelay),
		Ready: cmp.Or(over.Ready, b.Ready), ReadyDelay: cmp.Or(over.ReadyDelay, b.ReadyDelay), Conditions: conditions,
		Lease: cmp.Or(over.Lease, b.Lease), Pods: cmp.Or(over.Pods, b.Pods), Lasting: cmp.Or(over.Lasting, b.Lasting),
	}
}

func (b behaviour) joins() bool { return b.Join == nil || *b.Join != joinNever }

func (b behaviour) joinDelay() time.Duration {
	if b.JoinDelay == nil {
		return 0
	}
	return time.Duration(*b.JoinDelay)
}

func (b behaviour) readyDelay(usual time.Duration) time.Duration {
	if b.ReadyDelay == nil {
		return usual
	}
	return time.Duration(*b.ReadyDelay)
}

// yes is what is decided; nothing decided means yes.
func yes(decided *bool) bool { return decided == nil || *decided }
