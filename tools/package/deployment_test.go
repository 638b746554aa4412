package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestComposeFile loads the compose file, which validates it by the schema of the specification.
func TestComposeFile(t *testing.T) {
	load := func(env ...string) (*cli.ProjectOptions, error) {
		return cli.NewProjectOptions([]string{"../../packaging/compose/compose.yaml"}, cli.WithEnv(env))
	}
	options, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := options.LoadProject(t.Context()); err == nil || !strings.Contains(err.Error(), "run ./setup.sh") {
		t.Errorf("without the setup: %v", err)
	}
	if options, err = load("CQLD_USER=1000:1000", "CQLD_SUPERUSER_PASSWORD=x"); err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Services) != 4 {
		t.Errorf("%d services", len(project.Services))
	}
	for name, s := range project.Services {
		if !s.ReadOnly || s.User != "1000:1000" || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.HealthCheck == nil ||
			s.Hostname != name {
			t.Errorf("%s: %+v", name, s)
		}
		if !slices.Equal(s.Command[3:], []string{"--listen-address", name, "--rpc-address", name}) {
			t.Errorf("%s runs %q", name, s.Command)
		}
		for _, v := range s.Volumes {
			if v.Target != "/etc/cqld/cqld.yaml" && filepath.Base(v.Source) != name {
				t.Errorf("%s has the volume %s", name, v.Source)
			}
		}
	}
}

// TestComposeSetup runs the script with a program that makes empty certificates, twice: the second run changes nothing.
func TestComposeSetup(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../packaging/compose/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	// certs init --dir D …, and certs node --dir D … --name N …
	fake := `#!/bin/sh
case "$2" in
init) mkdir -p "$4"; echo "$*" >"$4/ca.key"; echo ca >"$4/ca.crt" ;;
node) [ -e "$6" ] && [ -e "$8" ] && echo "$*" >"$4/node.key" ;;
esac
`
	for name, s := range map[string]string{"setup.sh": string(text), "fake": fake} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var before map[string]string
	for i := range 2 {
		cmd := exec.Command(filepath.Join(dir, "setup.sh"))
		cmd.Env = append(os.Environ(), "CQLD="+filepath.Join(dir, "fake"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		after := texts(t, dir)
		if i == 1 && !equalTexts(before, after) {
			t.Errorf("the second run changed files: %v, %v", before, after)
		}
		before = after
	}
	if !regexp.MustCompile(`(?m)^CQLD_SUPERUSER_PASSWORD=[A-Za-z0-9]{28,}$`).MatchString(before[".env"]) {
		t.Errorf(".env: %s", before[".env"])
	}
	for _, node := range []string{"cqld1", "cqld2", "cqld3", "cqld4"} {
		if before["certs/"+node+"/ca.crt"] != "ca\n" || !strings.Contains(before["certs/"+node+"/node.key"], node) {
			t.Errorf("the certificates of %s: %v", node, before)
		}
	}
	info, err := os.Stat(filepath.Join(dir, ".env"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{".env", "certs/*", "certs/*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				continue // a directory
			}
			name, err := filepath.Rel(dir, p)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(b)
		}
	}
	return out
}

func equalTexts(a, b map[string]string) bool {
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return len(a) == len(b)
}

// manifests are the objects of the Kubernetes manifests.
type manifests struct {
	accounts []corev1.ServiceAccount
	configs  []corev1.ConfigMap
	services []corev1.Service
	sets     []appsv1.StatefulSet
	budgets  []policyv1.PodDisruptionBudget
	policies []networkingv1.NetworkPolicy
}

// readManifests decodes the manifests. Unknown and misspelled fields are errors.
func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/kubernetes/cqld.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind struct{ Kind, APIVersion string }
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ServiceAccount":
			m.accounts = append(m.accounts, decode[corev1.ServiceAccount](t, doc))
		case "v1 ConfigMap":
			m.configs = append(m.configs, decode[corev1.ConfigMap](t, doc))
		case "v1 Service":
			m.services = append(m.services, decode[corev1.Service](t, doc))
		case "apps/v1 StatefulSet":
			m.sets = append(m.sets, decode[appsv1.StatefulSet](t, doc))
		case "policy/v1 PodDisruptionBudget":
			m.budgets = append(m.budgets, decode[policyv1.PodDisruptionBudget](t, doc))
		case "networking.k8s.io/v1 NetworkPolicy":
			m.policies = append(m.policies, decode[networkingv1.NetworkPolicy](t, doc))
		default:
			t.Errorf("unexpected object %+v", kind)
		}
	}
	if len(m.accounts) != 1 || len(m.configs) != 1 || len(m.services) != 2 || len(m.sets) != 1 ||
		len(m.budgets) != 1 || len(m.policies) != 1 {
		t.Fatalf("objects are missing: %+v", m)
	}
	return m
}

func decode[T any](t *testing.T, doc []byte) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict(doc, &out); err != nil {
		t.Error(err)
	}
	return out
}

// TestManifestsBelongTogether checks the references between the objects.
func TestManifestsBelongTogether(t *testing.T) {
	m := readManifests(t)
	set := m.sets[0]
	pod := set.Spec.Template
	matches := func(what string, selector map[string]string) {
		t.Helper()
		for k, v := range selector {
			if pod.Labels[k] != v {
				t.Errorf("%s selects %s=%s, pods have %v", what, k, v, pod.Labels)
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
	}
	matches("the set", set.Spec.Selector.MatchLabels)
	matches("the budget", m.budgets[0].Spec.Selector.MatchLabels)
	matches("the policy", m.policies[0].Spec.PodSelector.MatchLabels)
	c := pod.Spec.Containers[0]
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, s := range m.services {
		matches(s.Name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				t.Errorf("%s: the pod has no port %s", s.Name, p.TargetPort.StrVal)
			}
		}
	}
	if s := m.services[0]; s.Name != set.Spec.ServiceName || s.Spec.ClusterIP != "None" ||
		!s.Spec.PublishNotReadyAddresses {
		t.Errorf("the service of the set: %+v", s)
	}
	for _, rule := range m.policies[0].Spec.Ingress {
		for _, p := range rule.Ports {
			if !ports[p.Port.StrVal] {
				t.Errorf("the policy: the pod has no port %s", p.Port.StrVal)
			}
		}
	}
	for name, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe,
		"readiness": c.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || !ports[p.HTTPGet.Port.StrVal] {
			t.Errorf("%s probe: %+v", name, p)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
	}
	for _, v := range c.VolumeMounts {
		if !volumes[v.Name] {
			t.Errorf("no volume %s", v.Name)
		}
		delete(volumes, v.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes without a mount: %v", volumes)
	}
}

// TestPodsAreRestricted checks the rules of the restricted pod security standard.
func TestPodsAreRestricted(t *testing.T) {
	spec := readManifests(t).sets[0].Spec.Template.Spec
	c := spec.Containers[0]
	truth := func(what string, b *bool, want bool) {
		t.Helper()
		if b == nil || *b != want {
			t.Errorf("%s is not %t", what, want)
		}
	}
	truth("runAsNonRoot", spec.SecurityContext.RunAsNonRoot, true)
	truth("allowPrivilegeEscalation", c.SecurityContext.AllowPrivilegeEscalation, false)
	truth("readOnlyRootFilesystem", c.SecurityContext.ReadOnlyRootFilesystem, true)
	truth("automountServiceAccountToken", spec.AutomountServiceAccountToken, false)
	if s := spec.SecurityContext; s.SeccompProfile == nil ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *s.RunAsUser != imageUser {
		t.Errorf("%+v", s)
	}
	if d := c.SecurityContext.Capabilities.Drop; !slices.Equal(d, []corev1.Capability{"ALL"}) {
		t.Errorf("capabilities: %v", d)
	}
	if len(spec.Containers) != 1 || spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Error("the pod shares something with the host, or has other containers")
	}
}
