{{- /* The one image of all processes. */ -}}
{{- define "ferrolb.image" -}}
{{- with .Values.image -}}
{{- .repository -}}
{{- if .tag -}}:{{ .tag }}{{- else if not .digest -}}:{{ $.Chart.AppVersion }}{{- end -}}
{{- with .digest -}}@{{ . }}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What tells the objects of this release from others. */ -}}
{{- define "ferrolb.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: {{ .Chart.Name }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The MetalLB object that says the same as the values. */ -}}
{{- define "ferrolb.metallb" -}}
apiVersion: metallb.io/v1beta1
kind: MetalLB
metadata:
  name: metallb
  namespace: {{ .Release.Namespace }}
spec:
  logLevel: {{ .Values.speaker.logLevel }}
  {{- with .Values.loadBalancerClass }}
  loadBalancerClass: {{ . | quote }}
  {{- end }}
  {{- if gt (int .Values.controller.replicas) 1 }}
  controllerReplicas: {{ .Values.controller.replicas }}
  {{- end }}
  {{- if .Values.speaker.ignoreExcludeLB }}
  ignoreExcludeLB: true
  {{- end }}
  updateStrategy:
    {{- toYaml .Values.speaker.updateStrategy | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.speaker.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.speaker.tolerations }}
  speakerTolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  speakerConfig:
    {{- include "ferrolb.config" .Values.speaker | nindent 4 }}
  {{- with .Values.controller.nodeSelector }}
  controllerNodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.controller.tolerations }}
  controllerTolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  controllerConfig:
    {{- include "ferrolb.config" .Values.controller | nindent 4 }}
{{- end -}}

{{- define "ferrolb.config" -}}
resources:
  {{- toYaml .resources | nindent 2 }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- end -}}
