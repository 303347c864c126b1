package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Annotations about how many machines are replaced, and when.
const (
	// MaxReplacementsAnnotation on a MachineDeployment, or on a MachineSet without one, is
	// how many of its unhealthy Machines are replaced at a time: a number from 1, or a
	// percentage of spec.replicas, rounded down to at least 1.
	MaxReplacementsAnnotation = "mcm.cluster.x-k8s.io/max-replacements"
	// SurgeFallbackAnnotation on a MachineDeployment, value "true": while the cloud has no
	// capacity for a machine beyond spec.replicas, a rolling update deletes one old machine
	// first, so that one machine more than maxUnavailable may be unavailable.
	SurgeFallbackAnnotation = "mcm.cluster.x-k8s.io/surge-fallback"
)

// AppliedCreationTimeoutAnnotation on a MachineDeployment is what the manager last adapted
// EffectiveCreationTimeoutAnnotation to, and when, e.g. "30m0s 2026-01-01T12:00:00Z". Another
// timeout with that time is a user's, and not changed.
const AppliedCreationTimeoutAnnotation = "mcm.cluster.x-k8s.io/applied-creation-timeout"

// Annotations on a MachineDeployment whose machines did not join in time: MCM's record of
// how EffectiveCreationTimeoutAnnotation was adapted to that. Times are RFC 3339.
const (
	// EffectiveCreationTimeoutAppliedAnnotation is when the manager last adapted the
	// timeout. Without it the timeout is a user's, and not changed.
	EffectiveCreationTimeoutAppliedAnnotation = "node.machine.sapcloud.io/effective-creation-timeout-last-applied-at"
	// ReplaceCycleCountAnnotation is how often machines were replaced because they did not
	// join, since the timeout last grew.
	ReplaceCycleCountAnnotation = "node.machine.sapcloud.io/replace-cycle-count"
	// ReplaceCycleCountAppliedAnnotation is when that was last counted.
	ReplaceCycleCountAppliedAnnotation = "node.machine.sapcloud.io/replace-cycle-count-last-applied-at"
)

// Annotations on a MachineDeployment whose rollout creates machines that do not join.
const (
	// FailedRolloutAnnotation is the new MachineSet none of whose machines has joined, in how many
	// cycles they failed to, and when the last cycle began: "workers-5d9c 2 2026-01-01T12:00:00Z".
	FailedRolloutAnnotation = "mcm.cluster.x-k8s.io/failed-rollout"
	// RolloutPausedAnnotation is the name of the new MachineSet if the manager has paused the
	// rollout to it. A user removes it to resume the rollout.
	RolloutPausedAnnotation = "mcm.cluster.x-k8s.io/rollout-paused"
)

// MachineJoined is MCM's condition in status.conditions of a Machine, beside those of its
// node: True once the node has joined, False if it had not within the creation timeout.
// A MachineDeployment has a condition of that type in status.progress while its machines
// do not join in time.
const MachineJoined corev1.NodeConditionType = "MachineJoined"

// Reasons of MachineJoined.
const (
	ReasonJoined     = "Joined"
	ReasonFailedJoin = "FailedJoin"
)

// ReasonSurgeFallback of condition ReplicasReady, and of an Event on a MachineDeployment: a
// rolling update deletes an old machine first, since the cloud has no capacity for surge.
const ReasonSurgeFallback = "SurgeFallback"

// ReasonRolloutPaused of condition ReplicasReady, and of an Event on a MachineDeployment: no machine
// of the new MachineSet has joined, and its failed machines are not replaced.
const ReasonRolloutPaused = "RolloutPaused"

// EventCreationTimeoutAdapted on a MachineDeployment tells that its creation timeout has
// grown because machines did not join in time, or was reduced since they do again.
const EventCreationTimeoutAdapted = "CreationTimeoutAdapted"

// ConsoleEvidenceType is the type of the Secret that keeps the consoles of a pool's machines that
// did not join. docs/operations.md explains it.
const ConsoleEvidenceType corev1.SecretType = "mcm.cluster.x-k8s.io/console-evidence"
