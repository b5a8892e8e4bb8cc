//go:build tools

// Package kube pins the real Kubernetes control plane our API suite is compared with.
//
// It holds no code. k8s.io/kubernetes asks for its staging modules at v0.0.0, so go.mod has to
// replace each of them with the release that belongs to it; scripts/kube-assets builds the programs.
package kube

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
