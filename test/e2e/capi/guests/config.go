package guests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	kubeadm "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstreamv1beta4"
	"sigs.k8s.io/yaml"
)

// A run is one call of kubeadm with its configuration.
type run struct {
	init    *kubeadm.InitConfiguration
	cluster *kubeadm.ClusterConfiguration // with init
	join    *kubeadm.JoinConfiguration
	files   map[string]string
}

// registration is how the node is to be registered.
func (r run) registration() kubeadm.NodeRegistrationOptions {
	if r.init != nil {
		return r.init.NodeRegistration
	}
	return r.join.NodeRegistration
}

// controlPlane reports whether the machine becomes one of the control plane.
func (r run) controlPlane() bool { return r.init != nil || r.join.ControlPlane != nil }

// readRun finds the call of kubeadm in boot data and reads its configuration.
func readRun(b boot) (run, error) {
	action, file, err := call(b.commands)
	if err != nil {
		return run{}, err
	}
	text, found := b.files[file]
	if !found {
		return run{}, fmt.Errorf("kubeadm %s: there is no file %s", action, file)
	}
	r := run{files: b.files}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		if err := r.decode([]byte(document)); err != nil {
			return run{}, fmt.Errorf("kubeadm %s: %s: %w", action, file, err)
		}
	}
	switch {
	case action == "init" && (r.init == nil || r.cluster == nil || r.join != nil):
		return run{}, errors.New("kubeadm init needs an InitConfiguration and a ClusterConfiguration, and nothing else")
	case action == "join" && (r.join == nil || r.init != nil || r.cluster != nil):
		return run{}, errors.New("kubeadm join needs a JoinConfiguration, and nothing else")
	}
	return r, nil
}

// call returns what kubeadm is to do, and its configuration file.
func call(commands []string) (action, file string, err error) {
	for _, line := range commands {
		program, _, _ := strings.Cut(line, " && ")
		words := strings.Fields(program)
		if len(words) == 0 || words[0] != "kubeadm" {
			continue
		}
		if action != "" {
			return "", "", errors.New("kubeadm is called twice")
		}
		if len(words) != 4 || words[2] != "--config" || !slices.Contains([]string{"init", "join"}, words[1]) {
			return "", "", fmt.Errorf("%q is no call of kubeadm that is known here", program)
		}
		action, file = words[1], words[3]
	}
	if action == "" {
		err = errors.New("kubeadm is not called")
	}
	return action, file, err
}

// decode reads one document. kubeadm refuses kinds and versions that it does not
// know; fields that it does not know it only warns of, here they are errors.
func (r *run) decode(document []byte) error {
	var is struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &is); err != nil {
		return err
	}
	if want := kubeadm.GroupVersion.String(); is.APIVersion != want {
		return fmt.Errorf("%s has apiVersion %q, and this kubeadm reads %s", is.Kind, is.APIVersion, want)
	}
	var into any
	switch is.Kind {
	case "InitConfiguration":
		r.init = &kubeadm.InitConfiguration{}
		into = r.init
	case "ClusterConfiguration":
		r.cluster = &kubeadm.ClusterConfiguration{}
		into = r.cluster
	case "JoinConfiguration":
		r.join = &kubeadm.JoinConfiguration{}
		into = r.join
	default:
		return fmt.Errorf("kind %q is not known", is.Kind)
	}
	return yaml.UnmarshalStrict(document, into)
}

// kubeletFlags are the kubelet's flags, of which the last of a name counts.
func kubeletFlags(registration kubeadm.NodeRegistrationOptions) map[string]string {
	flags := map[string]string{}
	for _, arg := range registration.KubeletExtraArgs {
		flags[arg.Name] = arg.Value
	}
	return flags
}

// endpoint is where the machine expects its cluster.
func (r run) endpoint() string {
	if r.init != nil {
		return r.cluster.ControlPlaneEndpoint
	}
	if token := r.join.Discovery.BootstrapToken; token != nil {
		return token.APIServerEndpoint
	}
	return ""
}

// parseLabels reads key=value,….
func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		if key, value, found := strings.Cut(entry, "="); found {
			labels[key] = value
		}
	}
	return labels
}
