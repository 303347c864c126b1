package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// join registers the node, or says why not and when to try again.
func (f *fleet) join(ctx context.Context, k *kubelet, r sim.Resource, how behaviour) time.Duration {
	now := time.Now()
	if !how.joins() {
		return 0 // until somebody changes that
	}
	if k.due.After(now) {
		return k.due.Sub(now)
	}
	machine, _ := find(f.cloud.Settings().InstanceTypes, r.VM.InstanceType)
	node := newNode(k, r, machine, f.conditions(how, now, now))
	if !f.options.addresses {
		node.Status.Addresses = node.Status.Addresses[:1] // the host name
	}
	registered, err := f.register(ctx, k, node)
	if err != nil {
		const first, longest = 500 * time.Millisecond, 15 * time.Second
		k.attempts++
		wait := min(first<<min(k.attempts-1, 10), longest)
		k.due = now.Add(wait)
		f.print(k, fmt.Sprintf("Cannot register node %s (attempt %d): %v", k.nodeName, k.attempts, err))
		return wait
	}
	f.mu.Lock()
	k.joined, k.nodeUID = now, registered.UID
	k.shown = map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range registered.Status.Conditions {
		k.shown[c.Type] = c.Status
	}
	f.nodes[k.nodeName] = k
	f.mu.Unlock()
	f.print(k, "Registered node "+k.nodeName)
	if f.pods != nil {
		f.pods.joined(k.nodeName)
	}
	return time.Millisecond
}

func find(all []sim.InstanceType, name string) (sim.InstanceType, bool) {
	for _, t := range all {
		if t.Name == name {
			return t, true
		}
	}
	return sim.InstanceType{}, false
}

// register makes the Node with the bootstrap token. A Node of that name that
// carries this VM's providerID is its own, from before a restart or a lost
// answer; with another one it stands in the way.
func (f *fleet) register(ctx context.Context, k *kubelet, node *corev1.Node) (*corev1.Node, error) {
	again := k.tried
	k.tried = true
	if again && f.client != nil {
		// It may be there from an earlier process, and the bootstrap token gone.
		own, err := f.client.CoreV1().Nodes().Get(ctx, k.nodeName, metav1.GetOptions{})
		if err == nil && own.Spec.ProviderID == k.providerID {
			return own, nil
		}
	}
	registered, err := f.joiner.create(ctx, k.boot, node)
	if !apierrors.IsAlreadyExists(err) {
		return registered, err
	}
	there, getErr := f.joiner.get(ctx, k.boot, k.nodeName)
	if getErr != nil {
		return nil, errors.Join(err, getErr)
	}
	if there.Spec.ProviderID != k.providerID {
		return nil, fmt.Errorf("there is a node of that name with providerID %q, which is not this VM: %w",
			there.Spec.ProviderID, err)
	}
	return there, nil
}

// joiner speaks to API servers as VMs do that have a bootstrap token only. All
// VMs that trust the same authority share connections.
type joiner struct {
	mu      sync.Mutex
	clients map[string]*http.Client // by CA
}

func newJoiner() *joiner { return &joiner{clients: map[string]*http.Client{}} }

func (j *joiner) create(ctx context.Context, b bootData, node *corev1.Node) (*corev1.Node, error) {
	text, err := json.Marshal(node)
	if err != nil {
		return nil, fmt.Errorf("encode node: %w", err)
	}
	return j.call(ctx, b, http.MethodPost, "/api/v1/nodes", text)
}

func (j *joiner) get(ctx context.Context, b bootData, name string) (*corev1.Node, error) {
	return j.call(ctx, b, http.MethodGet, "/api/v1/nodes/"+name, nil)
}

// call asks for one Node. An answer that is no Node is an API error.
func (j *joiner) call(ctx context.Context, b bootData, method, path string, body []byte) (*corev1.Node, error) {
	client, err := j.client(b.CAData)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(b.Server, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+b.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "simcloud-bootstrap")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		var status metav1.Status
		if err := json.Unmarshal(text, &status); err != nil || status.Code == 0 {
			return nil, fmt.Errorf("the server answered %s", resp.Status)
		}
		return nil, apierrors.FromObject(&status)
	}
	var node corev1.Node
	if err := json.Unmarshal(text, &node); err != nil {
		return nil, fmt.Errorf("decode node: %w", err)
	}
	return &node, nil
}

// client returns the client that trusts this authority; none means those of the
// machine.
func (j *joiner) client(caData string) (*http.Client, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.clients[caData]; c != nil {
		return c, nil
	}
	ca, err := base64.StdEncoding.DecodeString(caData)
	if err != nil {
		return nil, fmt.Errorf("decode caData: %w", err)
	}
	const timeout = 10 * time.Second
	c, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: ca}, Timeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("trust caData: %w", err)
	}
	j.clients[caData] = c
	return c, nil
}
