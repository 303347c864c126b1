package main

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
)

const repository = "https://github.com/capmcm/cluster-api-provider-mcm"

// What SLSA calls the parts of a statement about how something was built.
type (
	statement struct {
		Type          string    `json:"_type"`
		Subject       []subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     predicate `json:"predicate"`
	}
	subject struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	predicate struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]any    `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []subject         `json:"resolvedDependencies,omitempty"`
	}
	runDetails struct {
		Builder map[string]string `json:"builder"`
	}
)

// provenance states, in in-toto's and SLSA's form, what the files and the images
// were built from. A tree with changes that are in no commit has no source to name.
func (r *release) provenance(ctx context.Context, files assets) ([]byte, error) {
	var subjects []subject
	for _, p := range programs() {
		algorithm, hash, _ := strings.Cut(r.digests[p.name], ":")
		subjects = append(subjects, subject{Name: r.tagged(p), Digest: map[string]string{algorithm: hash}})
	}
	for _, name := range files.names() {
		subjects = append(subjects, subject{Name: name, Digest: map[string]string{"sha256": files.sha256(name)}})
	}
	definition := buildDefinition{
		BuildType:          repository + "/tree/main/cmd/release",
		ExternalParameters: map[string]any{"version": r.version, "image": r.image, "platforms": r.platforms},
		InternalParameters: map[string]string{"go": runtime.Version()},
	}
	if commit := r.commit(ctx); commit != "" {
		definition.ResolvedDependencies = []subject{{
			URI: "git+" + repository, Digest: map[string]string{"gitCommit": commit},
		}}
	}
	return json.Marshal(statement{
		Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{definition, runDetails{Builder: map[string]string{"id": repository + "/cmd/release"}}},
	})
}
