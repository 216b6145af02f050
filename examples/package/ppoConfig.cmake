include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET ppo::ppo)
    get_filename_component(ppo_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
    add_library(ppo::ppo INTERFACE IMPORTED)
    set_target_properties(ppo::ppo PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${ppo_prefix}/include"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;$<$<NOT:$<PLATFORM_ID:Windows>>:m>")
endif()
