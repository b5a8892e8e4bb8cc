{{- /* Refuses a manifest that was not read: Helm packages of a tree without its symbolic links have none. */ -}}
{{- define "netferry.check" -}}
{{- if not (last .).kind -}}
{{- fail (printf "manifests/%s is missing or is no object; use the chart from a git clone or a package" (first .)) -}}
{{- end -}}
{{- end -}}

{{- /* Puts values into a pod's specification: (specification, values of the component, all values, default tag). */ -}}
{{- define "netferry.pods" -}}
{{- $pod := index . 0 -}}
{{- $own := index . 1 -}}
{{- $values := index . 2 -}}
{{- $image := printf "%s:%s" $values.image.repository ($values.image.tag | default (index . 3)) -}}
{{- range $container := concat $pod.containers ($pod.initContainers | default list) -}}
{{- $_ := set $container "image" $image -}}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy -}}
{{- end -}}
{{- with $values.image.pullSecrets -}}
{{- $secrets := list -}}
{{- range . -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- end -}}
{{- $_ := set $pod "imagePullSecrets" $secrets -}}
{{- end -}}
{{- $_ := set $pod "priorityClassName" $own.priorityClassName -}}
{{- $_ := set $pod "tolerations" $own.tolerations -}}

{{- $container := first $pod.containers -}}
{{- $_ := set $container "resources" $own.resources -}}
{{- with $values.logLevel -}}
{{- $_ := set $container "env" (append $container.env (dict "name" "NETFERRY_LOG" "value" .)) -}}
{{- end -}}
{{- $arguments := list -}}
{{- range $at, $argument := $container.args -}}
{{- if and $at (eq (index $container.args (sub $at 1 | int)) "--listen") -}}
{{- $argument = $own.listen -}}
{{- end -}}
{{- $arguments = append $arguments $argument -}}
{{- end -}}
{{- $_ := set $container "args" $arguments -}}
{{- $port := regexFind "[0-9]+$" $own.listen | int -}}
{{- $host := trimSuffix (printf ":%d" $port) $own.listen | trimPrefix "[" | trimSuffix "]" -}}
{{- range $probe := list $container.livenessProbe ($container.readinessProbe | default dict) -}}
{{- with $probe.httpGet -}}
{{- $_ := set . "port" $port -}}
{{- if not (has $host (list "0.0.0.0" "::")) -}}
{{- $_ := set . "host" $host -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
