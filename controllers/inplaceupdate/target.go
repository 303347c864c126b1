package inplaceupdate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// targetOf names what an agent has to make of a node: all that a new VM would be
// made from, but what is on the Node alone. Equal ones have equal names.
func targetOf(u *update) (string, error) {
	what := struct{ Version, Class, Bootstrap string }{
		Version: u.machine.Spec.Version,
		Class:   u.infra.Spec.MachineClassRef.Name,
	}
	var err error
	if u.config != nil {
		if what.Bootstrap, err = encode(u.config.Spec); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	const length = 16 // more than enough to tell a Machine's updates apart
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:length], nil
}

// asksAgent reports whether the agent on the node has something to do, from what is
// known of the node: what it was last updated to, and before that what its VM was
// made from. What has begun is ended.
func (u *update) asksAgent() (bool, answer) {
	if u.node.Annotations[infrav1.UpdateTargetAnnotation] == u.target {
		return true, answer{}
	}
	last := u.infra.Annotations[infrav1.UpdatedInPlaceToAnnotation]
	if last == u.target {
		return false, answer{}
	}
	if !u.agent.none() {
		return last != "" || !u.asMade(), answer{}
	}
	if last != "" || u.otherClass() {
		return false, u.agentless()
	}
	return false, answer{}
}

// asMade reports whether the node certainly is what is asked for since its VM was made.
func (u *update) asMade() bool {
	if !slices.Contains(u.infra.Spec.ClassNames(), u.infra.Annotations[infrav1.MadeFromAnnotation]) {
		return false
	}
	if v := u.machine.Spec.Version; v != "" && v != u.node.Status.NodeInfo.KubeletVersion {
		return false
	}
	if u.config == nil {
		return true
	}
	spec, err := encode(u.config.Spec)
	return err == nil && u.made == spec
}

// otherClass reports whether the VM certainly is of another class than what is asked for.
func (u *update) otherClass() bool {
	made := u.infra.Annotations[infrav1.MadeFromAnnotation]
	return made != "" && !slices.Contains(u.infra.Spec.ClassNames(), made)
}

// agentless is the answer to an update that somebody has made impossible after it was promised.
func (u *update) agentless() answer {
	why := "has no annotation " + infrav1.NodeAgentUpdatesAnnotation
	if u.agentErr != nil {
		why = "has a wrong one: " + u.agentErr.Error()
	}
	return failed(infrav1.ReasonUpdateImpossible,
		"Node %s has to be changed by an agent, but the Machine %s; put the annotation (back) into the metadata of the "+
			"MachineDeployment's template, or delete the Machine, so that a new one replaces it",
		u.node.Name, why)
}

// result is what the agent says of the update that runs.
func (u *update) result() string { return u.node.Labels[machinev1.UpdateResultLabel] }
