# Completion of stator for bash. The program itself says what fits: commands, options, sessions.
_stator() {
    local current="${COMP_WORDS[COMP_CWORD]}" line
    COMPREPLY=()
    while IFS= read -r line; do
        line="${line%%$'\t'*}"
        if [[ "$line" == ":files" ]]; then
            compopt -o default 2>/dev/null
        else
            COMPREPLY+=("$(printf '%q' "$line")")
        fi
    done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "${current//\\/}" 2>/dev/null)
}
complete -F _stator stator
